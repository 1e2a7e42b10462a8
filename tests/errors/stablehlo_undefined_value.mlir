//$ flx run FILE
func.func public @main() -> tensor<2xf32> {
  %x = stablehlo.constant dense<1.0> : tensor<2xf32>
  %y = stablehlo.add %x, %z : tensor<2xf32>
  return %y : tensor<2xf32>
}
//! stablehlo_undefined_value.mlir:4:26: error: %z is not defined [NAME]
//! hint: a value is defined before it is used, in the same or an enclosing region
//? 2
