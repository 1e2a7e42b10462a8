// A value that is not defined: malformed.
func.func public @main() -> tensor<2xf32> {
  %x = stablehlo.constant dense<1.0> : tensor<2xf32>
  %y = stablehlo.subtract %x, %z : tensor<2xf32>
  return %y : tensor<2xf32>
}
