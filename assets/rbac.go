package assets

import (
	_ "embed" // the files
)

var (
	//go:embed rbac/ticket.yaml
	ticketRoles string
	//go:embed rbac/helpdesk.yaml
	helpDeskRoles string
	//go:embed rbac/breakglass.yaml
	breakGlassRoles string
)

// Roles are the roles and policies for one purpose.
type Roles struct {
	// Name is the purpose in a word.
	Name string
	// Manifest is YAML, one or more objects.
	Manifest string
}

// RBAC lists what there is: "ticket" for those who join, "helpdesk",
// "breakglass".
func RBAC() []Roles {
	return []Roles{{"ticket", ticketRoles}, {"helpdesk", helpDeskRoles}, {"breakglass", breakGlassRoles}}
}
