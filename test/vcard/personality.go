package vcard

import "time"

// Personality is a kind of PIV card that there is, as a card of this package: what it
// answers, and what it makes. No physical card was asked for it; each says where its ways
// are written down or were seen.
type Personality struct {
	Name string
	// About is what is special to it, in a sentence.
	About  string
	Config Config
	// Algorithms are the codes of those that it makes usable keys of, Cannot of those that it
	// is known not to make before anybody is asked for anything.
	Algorithms, Cannot []byte
	// NoOrigin: nothing tells later that a key was made on the card.
	NoOrigin bool
	// NoDelete: keys stay until they are overwritten.
	NoDelete bool
	// NoAttest, NoPolicies, NoReset, NoManagement: what else it lacks, and is known
	// to lack beforehand.
	NoAttest, NoPolicies, NoReset, NoManagement bool
}

// guid is a card holder identifier's of tests.
func guid(last byte) *[16]byte { return &[16]byte{0x6b, 0x75, 0x62, 0x65, 15: last} }

// thirdParty is a reset answer that names no maker that kubehsm knows.
const thirdParty = "PIV card"

// Personalities returns the kinds of cards, by their names.
func Personalities() []Personality {
	all := append(standardCards(), yubicoLike()...)
	return append(all, transports()...)
}

// standardCards know no command that is Yubico's.
func standardCards() []Personality {
	return []Personality{
		{
			// SP 800-73-4 and no more: no version, serial, metadata, attestation, nothing to delete a
			// key with; GENERATE answers the public key and nothing tells it later. SELECT lists the
			// cipher suite of secure messaging alone, as the NIST test cards do (tag AC, part 2
			// section 3.1.1), which says nothing of other algorithms.
			Name: "NIST SP 800-73-4",
			About: "the standard without Yubico's extensions; known by its CHUID; it gives the public " +
				"key only when it makes the key, so a placeholder certificate keeps it",
			Config: Config{Firmware: [3]byte{4, 0, 0}, Without: Extensions | Deverify, CHUID: guid(1),
				Ways: Ways{Historical: thirdParty, SecureMessaging: true, Algorithms: []byte{algRSA2048, algP256, algP384}}},
			Algorithms: []byte{algP256, algP384, algRSA2048},
			NoOrigin:   true, NoDelete: true, NoAttest: true,
			NoPolicies: true, NoReset: true, NoManagement: true,
		}, {
			// FIPS 201 cards of the years before ECC, and applets on Java Cards without it: RSA alone.
			// SELECT lists all algorithms in tag AC, as OpenFIPS201 does.
			Name:  "RSA only, listed by SELECT",
			About: "SELECT lists the algorithms (tag AC): kubehsm refuses others before it asks for anything",
			Config: Config{Firmware: [3]byte{4, 0, 0}, Without: Extensions, CHUID: guid(2),
				Ways: Ways{Historical: thirdParty, Lists: true, Algorithms: []byte{algRSA2048}}},
			Algorithms: []byte{algRSA2048}, Cannot: []byte{algP256, algP384, algEd25519, algRSA3072, algRSA4096},
			NoOrigin: true, NoDelete: true, NoAttest: true,
			NoPolicies: true, NoReset: true, NoManagement: true,
		}, {
			// Java Cards without P-384, whose GENERATE looks at the algorithm before it wants the
			// management key (SP 800-73-4 part 2 section 3.3.2 names both refusals and no order).
			Name:  "no P-384, told by GENERATE",
			About: "GENERATE looks at the algorithm first: kubehsm refuses others before it asks for anything",
			Config: Config{Firmware: [3]byte{4, 0, 0}, Without: Extensions, CHUID: guid(3),
				Ways: Ways{Historical: thirdParty, LooksFirst: true, Algorithms: []byte{algRSA2048, algP256}}},
			Algorithms: []byte{algP256, algRSA2048}, Cannot: []byte{algP384, algEd25519, algRSA3072, algRSA4096},
			NoOrigin: true, NoDelete: true, NoAttest: true,
			NoPolicies: true, NoReset: true, NoManagement: true,
		},
	}
}

// yubicoLike know commands of Yubico's, and differ from what their version says.
func yubicoLike() []Personality {
	return []Personality{
		{
			// Firmware of others that answers GET VERSION with a YubiKey's 5.7.0 and lacks what came
			// with it: MOVE KEY and ATTEST are unknown (6D00), policies refused
			// (6A80). Its Ed25519 signatures do not verify, as seen with a foreign card.
			Name: "says 5.7.0, can less",
			About: "no MOVE KEY and no ATTEST (6D00), policies refused (6A80), " +
				"Ed25519 signatures that do not verify",
			Config: Config{Firmware: [3]byte{5, 4, 3}, Without: Move | Attestation | Policies | OtherApps,
				Ways: Ways{Historical: thirdParty, Claims: [3]byte{5, 7, 0}, Algorithms: []byte{algRSA2048, algP256, algP384,
					algEd25519}, WrongWith: algEd25519}},
			Algorithms: []byte{algP256, algP384, algRSA2048},
			NoDelete:   true, NoAttest: true,
		}, {
			// Applets that answer GET VERSION with an old YubiKey's number, so that tools take them for
			// one. This one does all that firmware 5.7 does.
			Name:  "says 4.0.0, can more",
			About: "all that firmware 5.7 has",
			Config: Config{Firmware: [3]byte{5, 7, 1}, Without: OtherApps,
				Ways: Ways{Historical: thirdParty, Claims: [3]byte{4, 0, 0}}},
			Algorithms: []byte{algP256, algP384, algEd25519, algRSA2048},
		}, {
			// GET METADATA without ATTEST: cards without a key of their maker's to attest with.
			Name:  "metadata, no attestation",
			About: "no serial: known by its CHUID; GET METADATA answers for empty slots too",
			Config: Config{Without: Attestation | OtherApps | Serial, CHUID: guid(4),
				Ways: Ways{Historical: thirdParty}, EmptyPolicies: true},
			Algorithms: []byte{algP256, algEd25519, algRSA2048},
			NoAttest:   true,
		}, {
			// An attestation that is not DER: said, and not sent on.
			Name:       "attestation is no certificate",
			About:      "ATTEST answers with text; kubehsm says so and does not pass it on",
			Config:     Config{Without: OtherApps, Ways: Ways{Historical: thirdParty, AttestsText: true}},
			Algorithms: []byte{algP256, algRSA2048},
		}, {
			// Serial 0: known by its CHUID, which a reset replaces, as seen with a foreign card.
			// Yubico writes no CHUID and keeps the serial.
			Name:  "serial 0, new CHUID at reset",
			About: "known by its CHUID, so a reset makes it another token",
			Config: Config{CHUID: guid(5),
				Ways: Ways{Historical: thirdParty, Serial: []byte{0, 0, 0, 0}, NewCHUID: true}},
			Algorithms: []byte{algP256, algEd25519, algRSA2048},
		}, {
			// A serial that others read as a negative number, as ASN.1 and CSP tools do.
			Name:  "negative serial",
			About: "a serial that others read as a negative number counts as none: known by its CHUID",
			Config: Config{CHUID: guid(6),
				Ways: Ways{Historical: thirdParty, Serial: []byte{0xff, 0xff, 0xff, 0xfe}}},
			Algorithms: []byte{algP256, algRSA2048},
		}, {
			// PUT DATA to the objects of ykman's notes answers "not found" and keeps them all the
			// same, as seen with a foreign card. An AES-128 management key from the start (SP 800-78-4
			// table 6-1 has AES beside 3DES, and SP 800-78-5 has retired that).
			Name:  "notes kept but refused",
			About: "ykman's notes are refused with 6A82 and kept; AES-128 management key",
			Config: Config{Without: OtherApps, Ways: Ways{Historical: thirdParty, Management: algAES128,
				KeptAs: map[uint32]uint16{objectPrinted: swNotFound, 0x5fff00: swNotFound}}},
			Algorithms: []byte{algP256, algRSA2048},
		}, {
			// Eight tries (SP 800-73-4 leaves the number to the issuer), and a PIN that is blocked
			// answers 63C0 (part 2 section 3.2.1 allows it) where others answer 6983.
			Name:  "8 tries, blocked is 63C0",
			About: "eight tries, and a blocked PIN answers 63C0",
			Config: Config{Firmware: [3]byte{4, 0, 0}, Without: Extensions &^ (Version | Serial), CHUID: guid(7),
				Ways: Ways{Historical: thirdParty, Claims: [3]byte{5, 2, 4}, Serial: []byte{0, 0, 0x12, 0x34}, Tries: 8,
					BlockedAsZero: true, Algorithms: []byte{algRSA2048, algP256, algP384}}},
			Algorithms: []byte{algP256, algP384, algRSA2048},
			NoOrigin:   true, NoDelete: true, NoAttest: true, NoManagement: true,
		},
	}
}

// transports are odd in how commands and answers travel.
func transports() []Personality {
	return []Personality{
		{
			// Extended APDUs (ISO/IEC 7816-4 section 5.1) and no command chaining (6884).
			Name:       "extended APDUs, no chaining",
			About:      "long commands go as extended APDUs",
			Config:     Config{Ways: Ways{Historical: thirdParty, NoChaining: true}},
			Algorithms: []byte{algP256, algRSA2048},
		}, {
			// Answers in portions of 40 bytes (61xx), and GET RESPONSE only with the exact length
			// (6Cxx), as T=0 cards and small buffers have it.
			Name:       "short answers, exact lengths",
			About:      "answers of 40 bytes (61xx), GET RESPONSE with the exact length only (6Cxx)",
			Config:     Config{Ways: Ways{Historical: thirdParty, Portion: 40, ExactLe: true}},
			Algorithms: []byte{algP256, algRSA2048},
		}, {
			// Each command takes a while, as on Java Cards behind slow readers; tests of parallel work slow it down further.
			Name:  "slow, serial and no metadata",
			About: "firmware 4.3, each command takes a while",
			Config: Config{Firmware: [3]byte{4, 3, 5}, Without: Attestation,
				Ways: Ways{Historical: thirdParty, Delay: time.Millisecond}},
			Algorithms: []byte{algP256, algRSA2048},
			NoOrigin:   true, NoDelete: true, NoAttest: true,
		},
	}
}
