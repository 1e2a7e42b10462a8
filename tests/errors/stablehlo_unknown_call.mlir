//$ flx check FILE
func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.custom_call @no.such.function(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
//! stablehlo_unknown_call.mlir:3:8: error: unsupported: stablehlo.custom_call: the function @no.such.function is not known [UNSUPPORTED]
//? 2
