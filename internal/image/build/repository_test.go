package build

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

func TestRepositoriesAreReadAsAptReadsThem(t *testing.T) {
	for name, c := range map[string]struct {
		line  string
		want  Repository
		fails string
	}{
		"as in instructions": {
			line: "deb [arch=amd64 signed-by=/k.asc] https://d.example/linux/debian bookworm stable",
			want: Repository{"https://d.example/linux/debian", "d.example", "bookworm", []string{"stable"}, "/k.asc"},
		},
		"several components": {
			line: "[signed-by=/k.gpg]  http://d.example:8080  bookworm stable test",
			want: Repository{"http://d.example:8080", "d.example", "bookworm", []string{"stable", "test"}, "/k.gpg"},
		},
		"a directory":        {line: "deb [trusted=yes] http://d.example ./", want: Repository{"http://d.example", "d.example", "./", []string{}, ""}},
		"no key":             {line: "deb http://d.example bookworm stable", fails: "by which key"},
		"not trusted":        {line: "deb [trusted=no] http://d.example bookworm stable", fails: "trusted=no"},
		"a fingerprint":      {line: "deb [signed-by=0123456789ABCDEF] http://d.example bookworm stable", fails: "absolute path"},
		"another option":     {line: "deb [signed-by=/k allow-weak=yes] http://d.example bookworm stable", fails: "allow-weak"},
		"an open bracket":    {line: "deb [signed-by=/k http://d.example bookworm stable", fails: "no end"},
		"a local directory":  {line: "deb [signed-by=/k] file:/srv/debs bookworm stable", fails: "http or https"},
		"no component":       {line: "deb [signed-by=/k] http://d.example bookworm", fails: "component"},
		"a directory's part": {line: "deb [signed-by=/k] http://d.example ./ stable", fails: "no components"},
		"nothing":            {fails: "URL and suite"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRepository(c.line)
			if c.fails != "" {
				if !core.IsKind(err, core.Invalid) || !strings.Contains(err.Error(), c.fails) || core.Remedy(err) == "" {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(*got, c.want) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestARepositoryIsInPlaceOfDebiansDocker(t *testing.T) {
	b := Recipe(Options{Arch: "amd64", DockerRepository: &Repository{"http://d.example/it's", "d.example", "bookworm", []string{"stable"}, "/k.asc"}})
	if slices.Contains(b.Packages, "docker.io") || slices.Contains(b.Packages, "crun") || slices.Contains(b.Run, byCrun) {
		t.Errorf("it has Debian's: %q", b.Packages)
	}
	if !slices.Contains(b.Copy, spec.Copy{From: "/k.asc", To: keyInGuest}) {
		t.Errorf("the key is not there: %+v", b.Copy)
	}
	if !strings.HasPrefix(b.Run[0], `REPOSITORY='http://d.example/it'\''s bookworm stable' HOST='d.example' KEY=/bee-docker/key`+"\n") {
		t.Errorf("it runs %q", b.Run[0])
	}
}
