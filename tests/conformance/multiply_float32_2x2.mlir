// What it expects is not what it computes: a wrong answer, at element [1, 0].
func.func public @main() -> tensor<2x2xf32> {
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %expected = stablehlo.constant dense<[[1.0, 4.0], [9.5, 16.0]]> : tensor<2x2xf32>
  %y = stablehlo.multiply %x, %x : tensor<2x2xf32>
  stablehlo.custom_call @check.expect_close(%y, %expected) {has_side_effect = true} : (tensor<2x2xf32>, tensor<2x2xf32>) -> ()
  return %y : tensor<2x2xf32>
}
