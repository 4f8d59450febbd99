package bootstraptoken

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// How a record is kept, of k8s.io/cluster-bootstrap/token/api.
const (
	// Namespace is where the cluster looks for tokens.
	Namespace = metav1.NamespaceSystem
	// SecretType is the type of a token's Secret.
	SecretType corev1.SecretType = "bootstrap.kubernetes.io/token"

	namePrefix  = "bootstrap-token-"
	usagePrefix = "usage-bootstrap-"

	keyID          = "token-id"
	keySecret      = "token-secret"
	keyExpiration  = "expiration"
	keyDescription = "description"
	keyGroups      = "auth-extra-groups"
)

// SecretName is the name of the Secret of the token with this ID.
func SecretName(id string) string { return namePrefix + id }

// Secret is the record as the cluster keeps it. The record must be valid
// ([Record.Validate]).
func (r Record) Secret() (*corev1.Secret, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	data := map[string][]byte{
		keyID:     []byte(r.Token.ID()),
		keySecret: append([]byte(nil), r.Token.Key()...),
	}
	for _, u := range r.Usages {
		data[usagePrefix+u] = []byte("true")
	}
	if r.Description != "" {
		data[keyDescription] = []byte(r.Description)
	}
	if !r.Expires.IsZero() {
		data[keyExpiration] = []byte(r.Expires.UTC().Format(time.RFC3339))
	}
	if len(r.Groups) > 0 {
		data[keyGroups] = []byte(strings.Join(r.Groups, ","))
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: SecretName(r.Token.ID()), Namespace: Namespace},
		Type:       SecretType,
		Data:       data,
	}, nil
}

// Manifest is the Secret in YAML, as `kubectl create -f -` takes it. It holds
// the token in base64: for whom it is shown has the token.
func (r Record) Manifest() ([]byte, error) {
	s, err := r.Secret()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write the manifest of token %s: %w", r.Token.ID(), err)
	}
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		return nil, fmt.Errorf("write the manifest of token %s: %w", r.Token.ID(), err)
	}
	return out, nil
}

// FromSecret reads a record. A Secret that the cluster would not take for a
// token is [ErrNotToken]: of another type or namespace, with a name that does
// not match its token ID, without a well-formed ID and secret, or with an
// expiration that cannot be read. Groups and usages are given as they are,
// [Record.Validate] judges them.
func FromSecret(s *corev1.Secret) (Record, error) {
	no := func(format string, args ...any) (Record, error) {
		return Record{}, fmt.Errorf("secret %s: %w: %s", s.Name, ErrNotToken, fmt.Sprintf(format, args...))
	}
	if s.Type != SecretType {
		return no("it has the type %q", s.Type)
	}
	if s.Namespace != Namespace {
		return no("it is in the namespace %q", s.Namespace)
	}
	id := string(s.Data[keyID])
	if !ValidID(id) {
		return no("its %s is missing or malformed", keyID)
	}
	if s.Name != SecretName(id) {
		return no("its name does not match its %s: the cluster looks for %s", keyID, SecretName(id))
	}
	secret := s.Data[keySecret]
	if len(secret) != SecretLength || !plain(secret) {
		return no("its %s is missing or malformed", keySecret)
	}
	r := Record{Description: string(s.Data[keyDescription])}
	if text := string(s.Data[keyExpiration]); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return no("its %s is not a time, so it counts as expired", keyExpiration)
		}
		r.Expires = at.UTC()
	}
	for key, value := range s.Data {
		if usage, ok := strings.CutPrefix(key, usagePrefix); ok && string(value) == "true" {
			r.Usages = append(r.Usages, usage)
		}
	}
	slices.Sort(r.Usages)
	if text := string(s.Data[keyGroups]); text != "" {
		r.Groups = strings.Split(text, ",")
	}
	r.Token = newToken(id, secret)
	return r, nil
}
