//$ flx check - < FILE
// The place is that in the text.
module @m {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %y = stablehlo.frobnicate %x : tensor<2xf32>
    return %y : tensor<2xf32>
  }
}
//! <stdin>:5:10: error: no short form of stablehlo.frobnicate is known [UNSUPPORTED]
//! hint: the generic form of any operation is read: "dialect.op"(%a) : (type) -> type
//? 2
