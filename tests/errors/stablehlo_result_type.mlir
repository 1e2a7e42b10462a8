//$ flx check FILE
func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
