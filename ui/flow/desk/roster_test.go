package desk

import (
	"errors"
	"strings"
	"testing"
)

func TestReadRoster(t *testing.T) {
	all, err := ReadRoster(strings.NewReader("\ufeffSerial, owner,groups,horizon,state\n1234567,jane,dev; ops,2027-06-30,\n" +
		"1234568,bob,,,Lost\n1234569,,,,\n"))
	if err != nil || len(all) != 3 || all[0].Owner != "jane" || strings.Join(all[0].Groups, "|") != "dev|ops" ||
		all[0].Horizon.Format("2006-01-02T15:04") != "2027-07-01T00:00" || all[1].State != "Lost" || all[2].Owner != "" {
		t.Errorf("%+v, %v", all, err)
	}
	for list, says := range map[string]string{
		"":                                "first line",
		"owner,groups\n":                  "no column serial",
		"serial,name\n":                   `"name"`,
		"serial,serial\n":                 `"serial"`,
		"serial,owner\n1234567,a,b\n":     "wrong number of fields",
		"serial,owner\nABC,jane\n":        `line 2: "ABC" is no serial number`,
		"serial,owner\n1,a\n2,b\n1,c\n":   "line 4: the token 1 is in line 2 too",
		"serial,horizon\n1,soon\n":        `"soon" is no date`,
		"serial,owner,state\n1,a,Gone\n":  `"Gone" is no state`,
		"serial,groups\n1,dev\n":          "it has no owner",
		"serial,state\n1,Active\n":        "it has no owner",
		"serial,owner,groups\n1,a,x;x\n":  "named twice",
		"serial,owner\nx,a\ny,b\n":        `line 3: "y"`,
		"serial,owner,groups\n1,a,dev;\n": "is empty",
	} {
		if all, err := ReadRoster(strings.NewReader(list)); !errors.Is(err, ErrRoster) || !strings.Contains(err.Error(), says) ||
			all != nil {
			t.Errorf("%q: %v, %v; want %q", list, all, err, says)
		}
	}
}
