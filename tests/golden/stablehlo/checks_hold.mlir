//$ flx run FILE
//$ flx run FILE --device ref
// A NaN equals another one, 3 units in the last place are close, 0.001 is almost equal.
func.func public @main() -> tensor<3xf32> {
  %x = stablehlo.constant dense<[1.0, 0x7FC00001, 0xFF800000]> : tensor<3xf32>
  %same = stablehlo.constant dense<[1.0, 0x7FC00000, 0xFF800000]> : tensor<3xf32>
  %close = stablehlo.constant dense<[0x3F800003, 0x7FC00000, 0xFF800000]> : tensor<3xf32>
  %almost = stablehlo.constant dense<[1.0009, 0x7FC00000, 0xFF800000]> : tensor<3xf32>
  stablehlo.custom_call @check.expect_eq(%x, %same) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
  stablehlo.custom_call @check.expect_close(%x, %close) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
  stablehlo.custom_call @check.expect_almost_eq(%x, %almost) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
  return %x : tensor<3xf32>
}
//> out0: f32[3]
//>   min -inf, max 1, mean -inf, 1 nan
//>   1, nan, -inf
//> out0: f32[3]
//>   min -inf, max 1, mean -inf, 1 nan
//>   1, nan, -inf
