// Package revocation tests what csr/revocation writes against a real control plane: which
// requests a revoked certificate can still make, and that nobody else is hindered. The table
// in docs/revocation.md is measured here.
package revocation
