package home

import (
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// crowds are the groups that other users of the machine are in.
var crowds = []windows.WELL_KNOWN_SID_TYPE{
	windows.WinWorldSid,
	windows.WinAuthenticatedUserSid,
	windows.WinInteractiveSid,
	windows.WinNetworkSid,
	windows.WinBuiltinUsersSid,
	windows.WinBuiltinGuestsSid,
	windows.WinAccountDomainUsersSid,
}

const changes = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | windows.DELETE | windows.WRITE_DAC |
	windows.WRITE_OWNER | windows.GENERIC_WRITE | windows.GENERIC_ALL | fileDeleteChild

const fileDeleteChild = 0x40 // FILE_DELETE_CHILD

// checkOwner refuses a folder of another user, and one that a group of other users may change.
// Windows' own user folders pass; a folder in C:\ does not.
func checkOwner(path string, info fs.FileInfo) error {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("who may change %s: %w", path, err)
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return fmt.Errorf("the owner of %s: %w", path, err)
	}
	own, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return fmt.Errorf("the own user: %w", err)
	}
	// What an administrator's programs make is the Administrators'.
	if owner == nil || !owner.Equals(own.User.Sid) && !owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) &&
		!owner.IsWellKnown(windows.WinLocalSystemSid) {
		return hint.Withf(
			fmt.Errorf("%s belongs to %s: %w", path, name(owner), ErrUnsafe),
			"set %s to a folder of yours",
			EnvHome,
		)
	}
	who, err := crowdThatChanges(sd)
	if err != nil {
		return fmt.Errorf("who may change %s: %w", path, err)
	}
	if who != "" {
		rights := "F"
		if info.IsDir() {
			rights = "(OI)(CI)F" // for what is made in it, too
		}
		return hint.Withf(fmt.Errorf("%s can be changed by others (%s): %w", path, who, ErrUnsafe),
			`icacls "%s" /inheritance:r /grant:r "${env:USERNAME}:%s"`, path, rights)
	}
	return nil
}

// crowdThatChanges is the first group of [crowds] that may change something, "" if none may.
func crowdThatChanges(sd *windows.SECURITY_DESCRIPTOR) (string, error) {
	list, _, err := sd.DACL()
	if err != nil {
		return "", err
	}
	if list == nil {
		return "everybody", nil
	}
	for i := range uint32(list.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &ace); err != nil {
			return "", err
		}
		if ace.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE || ace.Header.AceFlags&windows.INHERIT_ONLY_ACE != 0 ||
			ace.Mask&changes == 0 {
			continue
		}
		sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
		for _, crowd := range crowds {
			if sid.IsWellKnown(crowd) {
				return name(sid), nil
			}
		}
	}
	return "", nil
}

// name is an account's name, or its number if it has none.
func name(sid *windows.SID) string {
	if sid == nil {
		return "nobody"
	}
	account, domain, _, err := sid.LookupAccount("")
	switch {
	case err != nil:
		return sid.String()
	case domain == "":
		return account
	}
	return domain + `\` + account
}
