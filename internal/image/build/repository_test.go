package build

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestRepositoriesAreReadAsAptReadsThem(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want Repository
	}{
		"as in instructions": {
			line: "deb [arch=amd64 signed-by=/k.asc] https://d.example/linux/debian bookworm stable",
			want: Repository{"https://d.example/linux/debian", "d.example", "bookworm", []string{"stable"}, "/k.asc"},
		},
		"several components": {
			line: "[signed-by=/k.gpg]  http://d.example:8080  bookworm stable test",
			want: Repository{"http://d.example:8080", "d.example", "bookworm", []string{"stable", "test"}, "/k.gpg"},
		},
		"a directory": {line: "deb [trusted=yes] http://d.example ./", want: Repository{"http://d.example", "d.example", "./", []string{}, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRepository(c.line)
			if err != nil || !reflect.DeepEqual(*got, c.want) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestRepositoriesThatCannotBe(t *testing.T) {
	var refused testkit.ErrorList
	for _, line := range []string{
		"deb http://d.example bookworm stable",
		"deb [trusted=no] http://d.example bookworm stable",
		"deb [signed-by=0123456789ABCDEF] http://d.example bookworm stable",
		"deb [signed-by=/k allow-weak=yes] http://d.example bookworm stable",
		"deb [signed-by=/k http://d.example bookworm stable",
		"deb [signed-by=/k] file:/srv/debs bookworm stable",
		"deb [signed-by=/k] http://d.example bookworm",
		"deb [signed-by=/k] http://d.example ./ stable",
		"",
	} {
		got, err := ParseRepository(line)
		if !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("got %+v, %v", got, err)
		}
		refused.Add(line, err)
	}
	refused.Compare(t, "repository")
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
