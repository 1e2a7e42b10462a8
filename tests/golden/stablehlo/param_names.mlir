//$ flx import FILE --param w=arg0 --param v=arg0
//$ flx import FILE --param 'arg*' --param v=arg1
//$ flx import FILE --param v=arg1 --param 'arg*' --param arg0 | head -n 1
//$ flx import FILE --param v=arg7
func.func @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %arg0, %arg1 : tensor<2xf32>
  return %0 : tensor<2xf32>
}
//> graph main(param arg0: f32[2], param v: f32[2]) {
//! error: --param v=arg0 has no effect: --param w=arg0 is about that input [USAGE]
//! error: --param v=arg1 has no effect: --param arg* is about that input [USAGE]
//! error: --param v=arg7: the graph has no such input [NAME]
//? 2
