package discovery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Discover finds the cluster that o starts from. Nothing is written anywhere.
// Besides this package's errors it returns those of ctx.
func Discover(ctx context.Context, o Options) (cluster.Cluster, error) {
	return discover(ctx, o, defaultPace(o.Limits))
}

func discover(ctx context.Context, o Options, p pace) (cluster.Cluster, error) {
	if err := o.Validate(); err != nil {
		return cluster.Cluster{}, err
	}
	timed, cancel := limited(ctx, o.Timeout, DefaultTimeout)
	defer cancel()
	var (
		info cluster.Cluster
		err  error
	)
	switch {
	case o.File == "":
		info, err = byToken(timed, o, p)
	case o.File == Stdin:
		// Whoever writes there may be a person.
		info, err = byStream(ctx, o.Stdin, "")
	case IsData(o.File):
		info, err = byData(o.File)
	case isURL(o.File):
		info, err = byURL(timed, o.File, o.Roots, p)
	default:
		info, err = byFile(timed, o.File)
	}
	if err != nil {
		return cluster.Cluster{}, fmt.Errorf("discover the cluster: %w", err)
	}
	return info, nil
}

// Published tells whether the cluster answers and shows everybody the document that joins begin
// with; the error is why not.
func Published(ctx context.Context, info cluster.Cluster) error {
	t, err := of(info)
	if err != nil {
		return err
	}
	_, err = t.clusterInfo(ctx)
	return err
}

// byToken is the whole of the token's way, see the package.
func byToken(ctx context.Context, o Options, p pace) (cluster.Cluster, error) {
	server, err := parseServer(o.Endpoint)
	if err != nil {
		return cluster.Cluster{}, err
	}
	document, err := signedDocument(ctx, unverified(server), o, p)
	if err != nil {
		return cluster.Cluster{}, err
	}
	return settled(ctx, unverified(server), document, o.Pins, p)
}

// settled is the cluster that a document describes which came from t while nobody vouched for t. Only
// authorities with one of these pins are kept, or all without pins; t, verified with those, must then
// give the same document. t's TLS server name holds where the document has none.
func settled(ctx context.Context, t target, document []byte, pins []Pin, p pace) (cluster.Cluster, error) {
	info, err := parseDocument(document, "")
	if err != nil {
		return cluster.Cluster{}, fmt.Errorf("cluster-info: %w", err)
	}
	certs, err := parseCAs(info.CAData)
	if err != nil {
		return cluster.Cluster{}, fmt.Errorf("cluster-info: %w", err)
	}
	if len(pins) > 0 {
		if certs, err = pinned(certs, pins); err != nil {
			return cluster.Cluster{}, err
		}
	}
	info.CAData = bundle(certs)
	name := t.tls.ServerName
	if known, err := parseServer(info.Server); err == nil && known.Host == t.url.Host {
		name = cmp.Or(info.TLSServerName, name)
	}
	v := verified(t.url, poolOf(certs), name)
	v.proxy, v.direct = t.proxy, t.direct
	if err := confirm(ctx, v, document, p); err != nil {
		return cluster.Cluster{}, err
	}
	return info, nil
}

// signedDocument reads the kubeconfig out of cluster-info as soon as it is
// signed with the token.
func signedDocument(ctx context.Context, t target, o Options, p pace) ([]byte, error) {
	var (
		document []byte
		unsigned time.Time // when the cluster info first lacked a signature
	)
	patience := o.SignatureWait
	if patience == 0 {
		patience = DefaultSignatureWait
	}
	read := func(ctx context.Context) error {
		data, err := t.clusterInfo(ctx)
		if err != nil {
			return err
		}
		signature := data["jws-kubeconfig-"+o.Token.ID()]
		if signature == "" {
			err := hint.Withf(fmt.Errorf("%w: cluster-info at %s is not signed with %s", ErrUnknownToken, t.url.Host,
				o.Token.ID()),
				"it has expired, was deleted, lacks the usage \"signing\", or is for another cluster: ask for a new one")
			if unsigned.IsZero() {
				unsigned = time.Now()
			}
			if time.Since(unsigned) >= patience {
				return err // most likely it has expired
			}
			return &retryError{err: err}
		}
		document = []byte(data["kubeconfig"])
		return verifySignature(signature, document, o.Token)
	}
	if err := p.until(ctx, read); err != nil {
		return nil, err
	}
	return document, nil
}

// confirm asks the same server again, now verified, and compares.
func confirm(ctx context.Context, t target, document []byte, p pace) error {
	return p.until(ctx, func(ctx context.Context) error {
		data, err := t.clusterInfo(ctx)
		if err != nil {
			return err
		}
		if !bytes.Equal([]byte(data["kubeconfig"]), document) {
			return hint.Withf(ErrDiffers, "if it was changed just now, try again; if the error stays, somebody may be "+
				"in between")
		}
		return nil
	})
}

// dataPrefix begins the [Options.File] that is the document itself, in base64: a data URL.
const dataPrefix = "data:;base64,"

// Document is what cluster-info and discovery files hold: a kubeconfig, in JSON, that says where the cluster is.
func Document(info cluster.Cluster) ([]byte, error) {
	of := map[string]any{"server": info.Server, "certificate-authority-data": info.CAData}
	if info.TLSServerName != "" {
		of["tls-server-name"] = info.TLSServerName
	}
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Config",
		"clusters": []any{map[string]any{"name": "", "cluster": of}}})
}

// DataFile is the [Options.File] that is a discovery file for a cluster by itself.
func DataFile(info cluster.Cluster) (string, error) {
	document, err := Document(info)
	return dataPrefix + base64.StdEncoding.EncodeToString(document), err
}

// IsData tells whether file is a document by itself, see [DataFile].
func IsData(file string) bool { return strings.HasPrefix(file, dataPrefix) }

func byData(file string) (cluster.Cluster, error) {
	document, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(file, dataPrefix))
	if err != nil {
		return cluster.Cluster{}, hint.Withf(fmt.Errorf("%w: it is not in base64", ErrDocument),
			"copy the whole line: mail programs break long ones")
	}
	if len(document) > maxDocument {
		return cluster.Cluster{}, fmt.Errorf("%w: it is longer than %d bytes", ErrDocument, maxDocument)
	}
	return parseDocument(document, "")
}

func byFile(ctx context.Context, path string) (cluster.Cluster, error) {
	f, err := openFile(path)
	if err != nil {
		return cluster.Cluster{}, hint.Withf(err, "a discovery file is a path, an https URL or -")
	}
	defer f.Close() // only read from
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return cluster.Cluster{}, err
	}
	info, err := byStream(ctx, f, dir)
	if err != nil {
		return cluster.Cluster{}, fmt.Errorf("%s: %w", path, err)
	}
	return info, nil
}

// byStream reads r to its end, or until ctx ends.
func byStream(ctx context.Context, r io.Reader, dir string) (cluster.Cluster, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := readBounded(r, maxDocument)
		done <- result{text, err}
	}()
	select {
	case got := <-done:
		if got.err != nil {
			return cluster.Cluster{}, got.err
		}
		return parseDocument(got.text, dir)
	case <-ctx.Done():
		return cluster.Cluster{}, ctx.Err()
	}
}

func byURL(ctx context.Context, text string, roots *x509.CertPool, p pace) (cluster.Cluster, error) {
	u, err := parseFileURL(text)
	if err != nil {
		return cluster.Cluster{}, err
	}
	t := verified(u, roots, "")
	t.redirects = true
	var info cluster.Cluster
	err = p.until(ctx, func(ctx context.Context) error {
		a, err := t.get(ctx, "", maxDocument)
		if err != nil {
			return err
		}
		switch said := fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)); {
		case a.status == http.StatusOK:
			info, err = parseDocument(a.body, "")
			return err
		case a.status == http.StatusTooManyRequests, a.status >= http.StatusInternalServerError:
			return &retryError{err: fmt.Errorf("%w: %s answered %s", ErrUnreachable, u.Host, said), after: retryAfter(a.header)}
		default:
			return hint.Withf(fmt.Errorf("%w: %s answered %s", ErrDocument, u.Host, said),
				"check the URL: there is no discovery file, or not for everybody")
		}
	})
	return info, err
}
