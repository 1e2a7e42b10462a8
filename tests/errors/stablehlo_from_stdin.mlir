//$ flx check - < FILE
// The place is that in the text.
module @m {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %y = stablehlo.frobnicate %x : tensor<2xf32>
    return %y : tensor<2xf32>
  }
}
//! <stdin>:5:10: error: stablehlo.frobnicate has no known short form [UNSUPPORTED]
//! hint: any operation can be written in the generic form: "dialect.op"(%a) : (type) -> type
//? 2
