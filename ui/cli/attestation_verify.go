package cli

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

func (a *app) attestationVerify() *cobra.Command {
	var o *format
	var root, of string
	c := a.command(&cobra.Command{
		Use:   "verify FILE...",
		Short: "Verify attestations in files, without the token",
		Long: `Verifies attestations offline. Each FILE holds an attestation and the certificate of
the device as PEM, or a certificate request that carries them and is for the same
key. Two files with one certificate each, as other tools write them, are taken
together. The trusted roots are Yubico's published ones, or those in --root.`,
		Example: `kubehsm attestation verify attestation.pem
kubehsm attestation verify request.pem -o json
kubehsm attestation verify statement.pem f9.pem --for jane.pem`,
		Args: cobra.MinimumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		roots, err := a.readRoots(root)
		if err != nil {
			return err
		}
		var key any
		if of != "" {
			b, err := a.readAll(of)
			if err != nil {
				return err
			}
			if key, err = token.PublicKey(b); err != nil {
				return fmt.Errorf("--for: %s: %w", of, err)
			}
		}
		sources, err := a.readAttestations(args)
		if err != nil {
			return err
		}
		doc := struct {
			Attestations []attestationDoc `json:"attestations"`
		}{}
		var bad []error
		var all []token.Attestation
		for _, s := range sources {
			at := token.VerifyAttestation(s.pem, key, roots)
			doc.Attestations = append(doc.Attestations, attestationDocOf(s.name, at))
			all = append(all, at)
			if at.Err != nil {
				bad = append(bad, at.Err)
			}
		}
		err = a.emit(o, doc, func(w *words) {
			for i, d := range doc.Attestations {
				if i > 0 {
					w.line("")
				}
				attestationWords(w, d.Source, all[i], len(sources) == 1)
			}
		})
		switch {
		case err != nil || len(bad) == 0:
			return err
		case len(sources) == 1:
			return errNotVerified(bad[0])
		}
		return fmt.Errorf("%d of %d attestations are not verified", len(bad), len(sources))
	})
	c.Flags().StringVar(&root, "root", "", rootUsage)
	c.Flags().StringVar(&of, "for", "", "PEM `file` with the certificate, request or public key that the "+
		"attestation must be for")
	o = output(c)
	return c
}

type attestationSource struct {
	name string
	pem  []byte
}

// readAttestations reads the files. Two files with one certificate each are the halves of one
// attestation.
func (a *app) readAttestations(files []string) ([]attestationSource, error) {
	var all []attestationSource
	var halves attestationSource
	var names []string
	for _, file := range files {
		b, err := a.readAll(file)
		if err != nil {
			return nil, err
		}
		block, rest := pem.Decode(b)
		if next, _ := pem.Decode(rest); block != nil && block.Type == "CERTIFICATE" && next == nil && len(files) > 1 {
			names = append(names, file)
			halves.pem = bytes.Join([][]byte{halves.pem, certificatePEM(block.Bytes)}, nil)
			continue
		}
		all = append(all, attestationSource{file, b})
	}
	if len(names) != 0 && len(names) != 2 {
		return nil, ui.Usagef("%s: these files have one certificate each; give the statement's and the device's",
			strings.Join(names, ", "))
	}
	if len(names) == 2 {
		halves.name = strings.Join(names, " and ")
		all = append(all, halves)
	}
	return all, nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
