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
