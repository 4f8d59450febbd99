package csr

// AdminCommand is text for an admin's shell that files the request of spec in
// the requester's stead and approves it. The private key is not part of it.
func AdminCommand(spec Spec) (string, error) {
	obj, err := spec.Object()
	if err != nil {
		return "", err
	}
	return heredoc(obj) + "kubectl certificate approve " + obj.Name + "\n", nil
}
