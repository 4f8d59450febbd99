package csr

import (
	"encoding/base64"
)

// AdminCommand is text for an admin's shell that files the request of spec in
// the requester's stead and approves it. The private key is not part of it.
func AdminCommand(spec Spec) (string, error) {
	obj, err := spec.Object()
	if err != nil {
		return "", err
	}
	meta := map[string]any{"name": obj.Name}
	if len(obj.Labels) > 0 {
		meta["labels"] = obj.Labels
	}
	if len(obj.Annotations) > 0 {
		meta["annotations"] = obj.Annotations
	}
	body := map[string]any{
		"request":    base64.StdEncoding.EncodeToString(obj.Spec.Request),
		"signerName": obj.Spec.SignerName,
		"usages":     obj.Spec.Usages,
	}
	if obj.Spec.ExpirationSeconds != nil {
		body["expirationSeconds"] = *obj.Spec.ExpirationSeconds
	}
	manifest := map[string]any{"apiVersion": obj.APIVersion, "kind": obj.Kind, "metadata": meta, "spec": body}
	return heredoc([]map[string]any{manifest}) + "kubectl certificate approve " + obj.Name + "\n", nil
}
