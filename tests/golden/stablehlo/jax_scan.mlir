//$ flx run FILE --device ref --in arg0=iota --in arg1=iota --in arg2=iota
//$ flx grad FILE --wrt arg0,arg2 --seed input | flx run - --device ref --in arg0=iota --in arg1=iota --in arg2=iota --in d_output=iota
//$ flx compare FILE --devices ref,cpu --in arg0=iota --in arg1=iota --in arg2=iota | tail -n 1
// A recurrent cell over a sequence: a while loop in the text. Written by JAX.
module @jit_rnn attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x2xf32>, %arg1: tensor<2xf32>, %arg2: tensor<2x2xf32>) -> (tensor<2xf32> {jax.result_info = "result[0]"}, tensor<3x2xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:5 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg2, %iterArg_1 = %c, %iterArg_2 = %arg1, %iterArg_3 = %0) : tensor<3x2xf32>, tensor<2x2xf32>, tensor<i32>, tensor<2xf32>, tensor<3x2xf32>
    cond {
      %c_4 = stablehlo.constant dense<3> : tensor<i32>
      %2 = stablehlo.compare LT, %iterArg_1, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_1) : (tensor<3x2xf32>, tensor<i32>) -> tensor<2xf32>
      %3:2 = func.call @closed_call(%iterArg_0, %iterArg_2, %2) : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
      %4 = func.call @dynamic_update_index_in_dim(%iterArg_3, %3#1, %iterArg_1) : (tensor<3x2xf32>, tensor<2xf32>, tensor<i32>) -> tensor<3x2xf32>
      %c_4 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %iterArg_1, %c_4 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_0, %5, %3#0, %4 : tensor<3x2xf32>, tensor<2x2xf32>, tensor<i32>, tensor<2xf32>, tensor<3x2xf32>
    }
    return %1#3, %1#4 : tensor<2xf32>, tensor<3x2xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3x2xf32>, %arg1: tensor<i32>) -> tensor<2xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 2] : (tensor<3x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
  func.func private @closed_call(%arg0: tensor<2x2xf32>, %arg1: tensor<2xf32>, %arg2: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
    %cst = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<2xf32>
    %cst_0 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %4 = stablehlo.multiply %arg2, %3 : tensor<2xf32>
    %5 = stablehlo.add %2, %4 : tensor<2xf32>
    %6 = stablehlo.tanh %5 : tensor<2xf32>
    return %6, %6 : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3x2xf32>, %arg1: tensor<2xf32>, %arg2: tensor<i32>) -> tensor<3x2xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
    return %1 : tensor<3x2xf32>
  }
}
//> out0: f32[2]
//>   min 0.816147, max 0.908953, mean 0.86255
//>   0.816147, 0.908953
//> out1: f32[3, 2]
//>   min 0.197375, max 0.908953, mean 0.614328
//>   0.197375, 0.50052, 0.537124, 0.725847, 0.816147, 0.908953
//> out1: f32[3, 2]
//>   min 0.197375, max 0.908953, mean 0.614328
//>   0.197375, 0.50052, 0.537124, 0.725847, 0.816147, 0.908953
//> d_arg0: f32[3, 2]
//>   min 0, max 0.0434512, mean 0.0091922
//>   0.000592735, 0.00185016, 0.00309154, 0.00616762, 0, 0.0434512
//> d_arg2: f32[2, 2]
//>   min 0.000244078, max 0.0145904, mean 0.00637824
//>   0.000244078, 0.00982239, 0.000856046, 0.0145904
//> ref and cpu agree: 2 of 2 outputs within 1e-05
//! note: the gradient is that of the values of jax_scan.mlir: stop_gradient and rules of functions are in programs that JAX exports for the platform fluxion
