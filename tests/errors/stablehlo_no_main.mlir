//$ flx check FILE
module {
  func.func private @helper(%x: tensor<2xf32>) -> tensor<2xf32> {
    return %x : tensor<2xf32>
  }
}
//! stablehlo_no_main.mlir: error: there is no function @main [NAME]
//! hint: rename the entry function to @main
//? 2
