// The loss of a logistic model on four examples: the mean of log(1 + exp(-label * (x w + b))), labels -1 and 1.
// StableHLO text, as JAX, PyTorch/XLA and others write it:
//   flx run examples/logistic.mlir --in arg0=normal --in arg1=1
//   flx grad examples/logistic.mlir --wrt arg0
module @logistic {
  func.func public @main(%x: tensor<4x3xf32>, %label: tensor<4xf32>) -> tensor<f32> {
    %w = stablehlo.constant dense<[0.5, -1.0, 0.25]> : tensor<3xf32>
    %b = stablehlo.constant dense<0.125> : tensor<f32>
    %xw = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4xf32>
    %shift = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %z = stablehlo.add %xw, %shift : tensor<4xf32>
    %loss = call @log_loss(%z, %label) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
  func.func private @log_loss(%z: tensor<4xf32>, %label: tensor<4xf32>) -> tensor<f32> {
    %margin = stablehlo.multiply %z, %label : tensor<4xf32>
    %minus = stablehlo.negate %margin : tensor<4xf32>
    %odds = stablehlo.exponential %minus : tensor<4xf32>
    %each = stablehlo.log_plus_one %odds : tensor<4xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%each init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %count = stablehlo.constant dense<4.0> : tensor<f32>
    %mean = stablehlo.divide %sum, %count : tensor<f32>
    return %mean : tensor<f32>
  }
}
