// The same in integers, through a call.
module @calls {
  func.func public @main() -> tensor<2xi32> {
    %a = stablehlo.constant dense<[2147483647, -3]> : tensor<2xi32>
    %expected = stablehlo.constant dense<[-2, -6]> : tensor<2xi32>
    %sum = call @twice(%a) : (tensor<2xi32>) -> tensor<2xi32>
    stablehlo.custom_call @check.expect_eq(%sum, %expected) {has_side_effect = true} : (tensor<2xi32>, tensor<2xi32>) -> ()
    return %sum : tensor<2xi32>
  }
  func.func private @twice(%x: tensor<2xi32>) -> tensor<2xi32> {
    %y = stablehlo.add %x, %x : tensor<2xi32>
    return %y : tensor<2xi32>
  }
}
