// Package pinsource answers PIN prompts where nobody can type: in pipelines, in
// services, over night. A PIN source is a private file, a credential that systemd
// hands to a service, or a file descriptor. Only the user's own configuration
// names one, for a token of a given serial; the pin-source of a token URI (RFC
// 7512 section 2.4) counts as far as the configuration lists the same, for URIs
// stand in files that others write.
//
// Programs start again and again, and a wrong PIN locks a token. A source is
// therefore left alone while the token counts wrong PINs, and once the token has
// refused what is in it, until that changes; see [Sources].
package pinsource
