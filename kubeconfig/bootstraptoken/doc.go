// Package bootstraptoken makes, lists and deletes bootstrap tokens: short-lived
// shared secrets that let a new user or node trust a cluster, and the cluster
// trust them for long enough to file a request.
//
// A [Token] is the secret itself, "abcdef.0123456789abcdef". A [Record] is a
// token with its terms, as the cluster keeps it: a Secret of type
// bootstrap.kubernetes.io/token in kube-system. The form is that of upstream's
// k8s.io/cluster-bootstrap, so that kubeadm reads what is written here and the
// other way round.
//
//	token, err := bootstraptoken.Generate()
//	record := bootstraptoken.Record{Token: token, Usages: bootstraptoken.KnownUsages()}
//	record.Expires, err = bootstraptoken.ExpiresIn(time.Now(), 24*time.Hour)
//	err = client.Create(ctx, record)
//
// A Token prints as "abcdef.<redacted>" however it is printed or marshalled;
// [Token.Reveal] and [Record.Manifest] are the only ways to the secret.
package bootstraptoken
