//$ flx run FILE --in arg0=iota --mesh data=2,model=2
//$ flx run FILE --in arg0=iota --mesh data=4,model=1
//$ flx plan FILE --mesh data=2,model=1
// Rows are cut along both axes of the mesh; a mesh of other sizes than the program's own is noted.
module @rows {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(%arg0: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}) -> (tensor<2xf32> {jax.result_info = ""}) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<8x2xf32>, tensor<f32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
//> out0: f32[2]
//>   min 56, max 64, mean 60
//>   56, 64
//> out0: f32[2]
//>   min 56, max 64, mean 60
//>   56, 64
//> mesh       data=2,model=1: 2 ranks
//> nodes      1 on parts, 1 on whole values, of which 0 were gathered
//> work       8 FLOP of a rank, 40 B read and written
//> memory     104 B: 40 B of values, 64 B to work in
//> exchanges  1, in which a rank sends 8 B in 2 messages
//>   all_reduce         data,model        1 time         8 B
//! note: the program is written for the mesh data=2,model=2: here its values are cut for data=4,model=1
//! note: the program is written for the mesh data=2,model=2: here its values are cut for data=2,model=1
