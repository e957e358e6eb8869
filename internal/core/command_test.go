package core

import (
	"slices"
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	image, bare := ImageConfig{Entrypoint: []string{"entry"}, Cmd: []string{"cmd"}}, ImageConfig{}
	for _, c := range []struct {
		name             string
		image            ImageConfig
		entrypoint, args []string
		want             []string
		says             string
	}{
		{"the image's own", image, nil, nil, []string{"entry", "cmd"}, ""},
		{"arguments in place of CMD", image, nil, []string{"arg"}, []string{"entry", "arg"}, ""},
		{"an entrypoint voids CMD", image, []string{"other"}, nil, []string{"other"}, ""},
		{"an empty one, too", image, []string{}, []string{"arg"}, []string{"arg"}, ""},
		{"one of an empty word, of the image", ImageConfig{Entrypoint: []string{""}, Cmd: []string{"cmd"}}, nil, nil, []string{"cmd"}, ""},
		{"one of an empty word, of the image, with arguments", ImageConfig{Entrypoint: []string{""}, Cmd: []string{"cmd"}}, nil, []string{"arg"}, []string{"arg"}, ""},
		{"one of an empty word, of the Beefile", image, []string{""}, []string{"arg"}, []string{"arg"}, ""},
		{"one of an empty word, of the Beefile, without arguments", image, []string{""}, nil, nil, "`entrypoint:`"},
		{"one of two words, of which one is empty", ImageConfig{Entrypoint: []string{"", "x"}}, nil, nil, []string{"", "x"}, ""},
		{"of an image that has none", bare, nil, nil, nil, "ENTRYPOINT"},
		{"of one whose own are set aside", image, []string{}, nil, nil, "`entrypoint:`"},
	} {
		got, err := Command(c.image, c.entrypoint, c.args)
		switch {
		case c.says == "" && (err != nil || !slices.Equal(got, c.want)):
			t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
		case c.says != "" && (!IsKind(err, Invalid) || !strings.Contains(err.Error(), c.says) || Remedy(err) == ""):
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
