//$ flx check FILE
//$ flx show FILE
//$ flx run FILE --in arg0=iota --in arg1=2
//$ flx run - --in arg0=iota --in arg1=2 < FILE
// Names of the text do not count: inputs are arg0, arg1, outputs out0, out1; what is called is part of the graph.
#loc = loc("source.py":1:1)
module @names attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%weights: tensor<2x3xf32>, %scale: tensor<f32>) -> (tensor<3xf32> {jax.result_info = "sum"}, tensor<2x3xf32>) {
    %0:2 = call @scaled(%weights, %scale) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<f32>)
    %1 = stablehlo.reduce(%0#0 init: %0#1) applies stablehlo.add across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
    return %1, %0#0 : tensor<3xf32>, tensor<2x3xf32>
  }
  func.func private @scaled(%arg0: tensor<2x3xf32>, %arg1: tensor<f32>) -> (tensor<2x3xf32>, tensor<f32>) {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<2x3xf32> loc(#loc)
    %2 = stablehlo.constant dense<0.0> : tensor<f32>
    return %1, %2 : tensor<2x3xf32>, tensor<f32>
  }
}
//> graph main
//> inputs:
//>   arg0: f32[2, 3]
//>   arg1: f32[]
//> outputs:
//>   out0: f32[3]
//>   out1: f32[2, 3]
//> nodes: 4
//>   1 broadcast_in_dim
//>   1 const
//>   1 mul
//>   1 reduce_sum
//> graph main(arg0: f32[2, 3], arg1: f32[]) {
//>   v0 = broadcast_in_dim(arg1, shape=[2, 3], axes=[])
//>   out1 = mul(arg0, v0)
//>   v1 = const(f32[], 0)
//>   out0 = reduce_sum(out1, axes=[0])
//>   return out0, out1
//> }
//> out0: f32[3]
//>   min 6, max 14, mean 10
//>   6, 10, 14
//> out1: f32[2, 3]
//>   min 0, max 10, mean 5
//>   0, 2, 4, 6, 8, 10
//> out0: f32[3]
//>   min 6, max 14, mean 10
//>   6, 10, 14
//> out1: f32[2, 3]
//>   min 0, max 10, mean 5
//>   0, 2, 4, 6, 8, 10
