// Package csr obtains a client certificate from a Kubernetes cluster for a key
// that cannot leave its token. It builds the PKCS#10 request with any
// crypto.Signer, files it as a CertificateSigningRequest, follows that to its
// end, checks what comes back, and serves the approver on the other side.
//
// The life of a request:
//
//	pem, err := csr.NewRequest(key, csr.Subject{User: "jane"}, csr.RequestOptions{})
//	spec := csr.Spec{Name: csr.RequestName("jane", hash), Request: pem}
//	obj, err := client.Create(ctx, spec)
//	status, err := client.Wait(ctx, csr.RefOf(obj), report)
//	cert, err := csr.Collect(status.Object, csr.Want{PublicKey: key.Public()})
//
// [Client.Rights] tells who the caller is and what they may do, [Client.ControlPlane]
// what the cluster signs and accepts, [Client.Forecast] what will become of a request.
//
// The API client is a small one over rest.RESTClient and a scheme of three
// groups, of the fifty that the generated clientset has.
//
// Text that comes from the cluster or from a request (messages, subjects,
// reasons) is passed on as it is. It is untrusted; whoever prints it cleans it.
//
// Sources: RFC 2986 (PKCS#10), RFC 5280 (X.509), and the Kubernetes API
// reference, certificates.k8s.io/v1.
package csr
