//$ flx check FILE
func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
//! stablehlo_result_type.mlir:3:8: error: stablehlo.transpose: result 0 is f32[3, 2], but the text says tensor<2x3xf32> [SHAPE]
//? 2
