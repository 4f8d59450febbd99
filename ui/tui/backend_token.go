package tui

import (
	"context"
	"crypto/x509"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

func (b *backend) tokens() token.Tokens { return token.Tokens{Env: b.Env} }

func (b *backend) keys() token.Keys { return token.Keys{Env: b.Env} }

func (b *backend) Token(ctx context.Context, u hsm.URI) (token.Details, error) {
	return b.tokens().Details(ctx, u)
}

func (b *backend) ChangePIN(ctx context.Context, u hsm.URI, kind hsm.PINKind, p hsm.Prompter) (token.Details, error) {
	return b.tokens().ChangePIN(ctx, u, kind, p)
}

func (b *backend) UnblockPIN(ctx context.Context, u hsm.URI, p hsm.Prompter) (token.Details, error) {
	return b.tokens().UnblockPIN(ctx, u, p)
}

func (b *backend) SetRetries(ctx context.Context, u hsm.URI, pin, puk int, p hsm.Prompter) (token.Details, error) {
	return b.tokens().SetRetries(ctx, u, pin, puk, p)
}

func (b *backend) SetManagementKey(ctx context.Context, u hsm.URI, o hsm.ManagementKeyOptions, p hsm.Prompter) (*hsm.Secret, token.Details, error) {
	return b.tokens().SetManagementKey(ctx, u, o, p)
}

func (b *backend) InitToken(ctx context.Context, u hsm.URI, o hsm.InitializeOptions, p hsm.Prompter) (hsm.TokenInfo, error) {
	return b.tokens().Init(ctx, u, o, p)
}

func (b *backend) ResetToken(ctx context.Context, u hsm.URI, confirm func(token.Loss) (hsm.Prompter, error)) (token.Details, error) {
	return b.tokens().Reset(ctx, u, confirm)
}

func (b *backend) Loss(ctx context.Context, u hsm.URI) (token.Loss, error) {
	return b.tokens().Loss(ctx, u)
}

func (b *backend) GenerateKey(ctx context.Context, u hsm.URI, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	return b.keys().Generate(ctx, u, o, p)
}

func (b *backend) DeleteKey(ctx context.Context, u hsm.URI, l token.Loss, p hsm.Prompter) error {
	return b.keys().Delete(ctx, u, l, p)
}

func (b *backend) DeleteCertificate(ctx context.Context, u hsm.URI, l token.Loss, p hsm.Prompter) error {
	return b.keys().DeleteCertificate(ctx, u, l, p)
}

func (b *backend) MoveKey(ctx context.Context, u hsm.URI, slot string, p hsm.Prompter) (hsm.Slot, []string, error) {
	return b.keys().Move(ctx, u, slot, p)
}

func (b *backend) ImportCertificate(ctx context.Context, u hsm.URI, name string, pem []byte, p hsm.Prompter) (*csr.Certificate, error) {
	return b.keys().Import(ctx, u, name, pem, p)
}

func (b *backend) AttestKey(ctx context.Context, u hsm.URI, roots []*x509.Certificate) (token.Attestation, error) {
	return b.keys().Attest(ctx, u, roots)
}
