// Package v1alpha1 is the gRPC form of the external signer protocol, generated
// from externalsigner.proto by `make generate`: messages, client and server as
// protoc-gen-go and protoc-gen-go-grpc write them. Package service is kubehsm's
// server, package provider its client.
package v1alpha1
