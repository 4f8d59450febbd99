package execcredential

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/strict"
)

// decode is stricter than encoding/json, which accepts a field's name in any case and the last of
// two equal fields, and than sigs.k8s.io/json, which client-go uses.
func decode(data []byte) (r Request, kind string, err error) {
	var spec, described json.RawMessage
	if err := object(data, map[string]any{"kind": &kind, "apiVersion": &r.APIVersion, "spec": &spec}); err != nil {
		return Request{}, "", err
	}
	if err := object(spec, map[string]any{"interactive": &r.Interactive, "cluster": &described}); err != nil {
		return Request{}, "", err
	}
	if null(described) {
		return r, kind, nil
	}
	c := &cluster.Cluster{}
	if err := object(described, map[string]any{
		"server": &c.Server, "tls-server-name": &c.TLSServerName,
		"insecure-skip-tls-verify": &c.InsecureSkipTLSVerify, "certificate-authority-data": &c.CAData,
		"proxy-url": &c.ProxyURL, "disable-compression": &c.DisableCompression, "config": &r.Config,
	}); err != nil {
		return Request{}, "", err
	}
	if null(r.Config) {
		r.Config = nil
	}
	r.Cluster = c
	return r, kind, nil
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// object reads the mapped fields of a JSON object and ignores others. A field that appears twice is
// an error; null, or nothing, is an object without fields. Errors quote nothing.
func object(data []byte, into map[string]any) error {
	if null(bytes.TrimSpace(data)) {
		return nil
	}
	all, err := strict.Members(data)
	switch {
	case errors.Is(err, strict.ErrDuplicate):
		return errors.New("a field appears twice")
	case errors.Is(err, strict.ErrNoObject):
		return errors.New("not a JSON object")
	case errors.Is(err, strict.ErrMore):
		return errors.New("text after the JSON object")
	case err != nil:
		return err
	}
	for _, m := range all {
		if to := into[m.Name]; to != nil {
			if err := json.Unmarshal(m.Value, to); err != nil {
				return err
			}
		}
	}
	return nil
}
