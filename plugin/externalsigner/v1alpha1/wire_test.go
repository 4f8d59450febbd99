package v1alpha1

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// message puts fields into protobuf's format by their numbers, without the
// generated code: strings, bytes and messages, or numbers.
func message(fields ...any) (b []byte) {
	for i := 0; i < len(fields); i += 2 {
		n := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		}
	}
	return b
}

// TestNumbers: the fields have the numbers and types of the prototype that came
// with the KEP.
func TestNumbers(t *testing.T) {
	cluster := &Cluster{Server: "https://c", ServerName: "c", CaData: []byte{1}, Config: []byte("{}")}
	clusterBytes := message(1, "https://c", 2, "c", 3, []byte{1}, 4, []byte("{}"))
	config := map[string]string{"slotId": "0"}
	configBytes := message(1, "slotId", 2, "0")
	sign := func(r *SignatureRequest) *SignatureRequest {
		r.Version, r.Cluster, r.Configuration, r.Digest = "v1alpha1", cluster, config, []byte{7}
		return r
	}
	signBytes := func(n int, opts []byte) []byte {
		return message(1, "v1alpha1", 2, clusterBytes, 3, configBytes, 4, []byte{7}, n, opts)
	}
	generic := &SignatureRequest_GenericSignerOptions{Hash: 5}
	for name, c := range map[string]struct {
		message proto.Message
		want    []byte
	}{
		"version request":  {&VersionRequest{Version: "v1alpha1"}, message(1, "v1alpha1")},
		"version response": {&VersionResponse{Version: "v1alpha1"}, message(1, "v1alpha1")},
		"certificate request": {&CertificateRequest{Version: "v1alpha1", Cluster: cluster, Configuration: config},
			message(1, "v1alpha1", 2, clusterBytes, 3, configBytes)},
		"certificate": {&CertificateResponse{Content: &CertificateResponse_Certificate{[]byte{9}}}, message(1, []byte{9})},
		"prompt before the certificate": {&CertificateResponse{Content: &CertificateResponse_UserPrompt{"touch"}},
			message(2, "touch")},
		"PKCS#1 v1.5": {sign(&SignatureRequest{SignerOpts: &SignatureRequest_SignerOptsRSAPKCS1{generic}}), signBytes(5, message(1, 5))},
		"PSS": {sign(&SignatureRequest{SignerOpts: &SignatureRequest_SignerOptsRSAPSS{&SignatureRequest_RSAPSSOptions{SaltLenght: -1, Hash: 5}}}),
			signBytes(6, message(1, -1, 2, 5))},
		"ECDSA":                       {sign(&SignatureRequest{SignerOpts: &SignatureRequest_SignerOptsECDSA{generic}}), signBytes(7, message(1, 5))},
		"Ed25519":                     {sign(&SignatureRequest{SignerOpts: &SignatureRequest_SignerOptsED25519{&SignatureRequest_GenericSignerOptions{}}}), signBytes(8, []byte{})},
		"signature":                   {&SignatureResponse{Content: &SignatureResponse_Signature{[]byte{9}}}, message(1, []byte{9})},
		"prompt before the signature": {&SignatureResponse{Content: &SignatureResponse_UserPrompt{"touch"}}, message(2, "touch")},
	} {
		got, err := proto.MarshalOptions{Deterministic: true}.Marshal(c.message)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %x (%v)\nwant %x", name, got, err, c.want)
		}
		read := c.message.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(c.want, read); err != nil || !proto.Equal(read, c.message) {
			t.Errorf("%s: read back as %v (%v)", name, read, err)
		}
	}
}

// TestService: methods have their names on the wire.
func TestService(t *testing.T) {
	for got, want := range map[string]string{
		ExternalSignerService_Version_FullMethodName:        "/v1alpha1.ExternalSignerService/Version",
		ExternalSignerService_GetCertificate_FullMethodName: "/v1alpha1.ExternalSignerService/GetCertificate",
		ExternalSignerService_Sign_FullMethodName:           "/v1alpha1.ExternalSignerService/Sign",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if s := ExternalSignerService_ServiceDesc.Streams; len(s) != 2 || !s[0].ServerStreams || !s[1].ServerStreams {
		t.Errorf("streams %+v", s)
	}
}
