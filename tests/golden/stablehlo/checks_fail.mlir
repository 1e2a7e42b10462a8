//$ flx run FILE --in arg0=1
//$ flx run FILE --in arg0=1 --device ref
//$ flx run FILE --in arg0=2
//$ flx run FILE --in arg0=3
//$ flx run FILE --in arg0=4
// A failing check reports the line, the element, and both values; -0 is close to 0, but has other bits.
func.func public @main(%which: tensor<i32>) -> tensor<2x2xf64> {
  %x = stablehlo.constant dense<[[0.0, 1.0], [2.0, 3.0]]> : tensor<2x2xf64>
  %y = stablehlo.constant dense<[[0.0, 1.0], [2.0, 3.0000000000000018]]> : tensor<2x2xf64>
  %z = stablehlo.constant dense<[[-0.0, 1.0], [2.0015, 3.0]]> : tensor<2x2xf64>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %is_one = stablehlo.compare EQ, %which, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %is_two = stablehlo.compare EQ, %which, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %is_three = stablehlo.compare EQ, %which, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %a = stablehlo.select %is_one, %z, %x : tensor<i1>, tensor<2x2xf64>
  %b = stablehlo.select %is_two, %y, %x : tensor<i1>, tensor<2x2xf64>
  %c = stablehlo.select %is_three, %z, %x : tensor<i1>, tensor<2x2xf64>
  stablehlo.custom_call @check.expect_eq(%a, %x) {has_side_effect = true} : (tensor<2x2xf64>, tensor<2x2xf64>) -> ()
  stablehlo.custom_call @check.expect_close(%b, %x) {has_side_effect = true} : (tensor<2x2xf64>, tensor<2x2xf64>) -> ()
  stablehlo.custom_call @check.expect_almost_eq(%c, %x) {has_side_effect = true} : (tensor<2x2xf64>, tensor<2x2xf64>) -> ()
  return %b : tensor<2x2xf64>
}
//> out0: f64[2, 2]
//>   min 0, max 3, mean 1.5
//>   0, 1, 2, 3
//! error: check: check.expect_eq(%a, %x) at line 20 (element [0, 0] of ok is false, where x is -0, 0) [CHECK]
//! error: check: check.expect_eq(%a, %x) at line 20 (element [0, 0] of ok is false, where x is -0, 0) [CHECK]
//! error: check: check.expect_close(%b, %x) at line 21 (element [1, 1] of ok is false, where x is 3.0000000000000018, 3) [CHECK]
//! error: check: check.expect_almost_eq(%c, %x) at line 22 (element [1, 0] of ok is false, where x is 2.0015, 2) [CHECK]
//? 1
