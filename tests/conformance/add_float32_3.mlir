// A program that checks itself, for the test of script/conformance.
module @sums {
  func.func public @main() -> tensor<3xf32> {
    %a = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %b = stablehlo.constant dense<0.5> : tensor<3xf32>
    %expected = stablehlo.constant dense<[1.5, 2.5, 3.5]> : tensor<3xf32>
    %sum = stablehlo.add %a, %b : tensor<3xf32>
    stablehlo.custom_call @check.expect_eq(%sum, %expected) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
    return %sum : tensor<3xf32>
  }
}
