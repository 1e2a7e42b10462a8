//$ flx run FILE --device ref --in arg0=iota
//$ flx grad FILE --wrt arg0 --seed input | flx run - --device ref --in arg0=iota --in d_output=iota
//$ flx compare FILE --devices ref,cpu --in arg0=iota
// The two largest of each row. Written by JAX.
module @jit_largest attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x5xf32>) -> (tensor<2x2xf32> {jax.result_info = "result[0]"}, tensor<2x2xi32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.sine %arg0 : tensor<2x5xf32>
    %values, %indices = chlo.top_k(%0, k = 2) : tensor<2x5xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)
    return %values, %indices : tensor<2x2xf32>, tensor<2x2xi32>
  }
}
