//$ flx grad FILE --wrt arg0,arg1 --value | flx run - --in arg0=iota --in arg1=2
//$ flx jvp FILE --wrt arg0 | flx run - --in arg0=iota --in arg1=2 --in tangent_arg0=1
//$ flx hvp FILE --wrt arg0 | flx run - --in arg0=iota --in arg1=2 --in tangent_arg0=1
//$ flx vmap FILE --in arg0=0 --size 2 | flx run - --in arg0=iota --in arg1=2
//$ flx jac FILE --wrt arg1 | flx run - --in arg0=iota --in arg1=2
//$ flx hessian FILE --wrt arg1 | flx run - --in arg0=iota --in arg1=2
//$ flx taylor FILE --wrt arg1 --order 2 | flx run - --in arg0=iota --in arg1=2 --in tangent_arg1=1
//$ flx gradcheck FILE >/dev/null && echo agrees
//$ flx compare FILE --devices ref,cpu --in arg0=iota --in arg1=2 | tail -n 1
//$ flx bench FILE --repeat 1 | grep -c run:
//$ flx lower FILE | flx rewrite - | flx run - --in arg0=iota --in arg1=2
// sum(x^2 y): every command takes the text as it is.
func.func public @main(%x: tensor<3xf32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf32>
  %1 = stablehlo.broadcast_in_dim %y, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}
//> out0: f32[] = 10
//> d_arg0: f32[3]
//>   min 0, max 8, mean 4
//>   0, 4, 8
//> d_arg1: f32[] = 5
//> out0: f32[] = 10
//> tangent_out0: f32[] = 12
//> hvp_arg0: f32[3]
//>   min 4, max 4, mean 4
//>   4, 4, 4
//> out0: f32[2]
//>   min 10, max 100, mean 55
//>   10, 100
//> jac_out0_arg1: f32[] = 5
//> hessian_arg1_arg1: f32[] = 0
//> out0: f32[] = 10
//> taylor_out0_1: f32[] = 5
//> taylor_out0_2: f32[] = 0
//> agrees
//> ref and cpu agree: 1 of 1 outputs within 1e-05
//> 1
//> out0: f32[] = 10
