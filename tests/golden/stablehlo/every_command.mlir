//$ flx grad FILE --wrt arg0,arg1 --value | flx run - --in arg0=iota --in arg1=2
//$ flx jvp FILE --wrt arg0 | flx run - --in arg0=iota --in arg1=2 --in tangent_arg0=1
//$ flx hvp FILE --wrt arg0 | flx run - --in arg0=iota --in arg1=2 --in tangent_arg0=1
//$ flx vmap FILE --in arg0=0 --size 2 | flx run - --in arg0=iota --in arg1=2
//$ flx jac FILE --wrt arg1 | flx run - --in arg0=iota --in arg1=2
//$ flx hessian FILE --wrt arg1 | flx run - --in arg0=iota --in arg1=2
//$ flx taylor FILE --wrt arg1 --order 2 | flx run - --in arg0=iota --in arg1=2 --in tangent_arg1=1
//$ flx gradcheck FILE | sed 's/[0-9.e-]* *at.*//' | head -1
//$ flx compare FILE --devices ref,cpu --in arg0=iota --in arg1=2
//$ flx bench FILE --repeat 1 | grep -c run:
//$ flx lower FILE | flx fuse - | flx run - --in arg0=iota --in arg1=2
// sum(x^2 y): every command takes the text as it is.
func.func public @main(%x: tensor<3xf32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf32>
  %1 = stablehlo.broadcast_in_dim %y, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}
