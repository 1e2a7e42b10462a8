//$ flx check FILE
func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %token = stablehlo.create_token : !stablehlo.token
  %sent = "stablehlo.outfeed"(%x, %token) <{outfeed_config = ""}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  return %x : tensor<2xf32>
}
//! stablehlo_unsupported_operation.mlir:4:11: error: unsupported: stablehlo.outfeed: there is no other process or host to talk to [UNSUPPORTED]
//? 2
