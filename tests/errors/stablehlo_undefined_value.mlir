//$ flx run FILE
func.func public @main() -> tensor<2xf32> {
  %x = stablehlo.constant dense<1.0> : tensor<2xf32>
  %y = stablehlo.add %x, %z : tensor<2xf32>
  return %y : tensor<2xf32>
}
