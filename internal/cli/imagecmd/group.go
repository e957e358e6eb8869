package imagecmd

import (
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/image/build"
	"github.com/bee-hpc/bee/internal/spec"
)

// Group is which images of the cache a group of commands is about.
type Group struct {
	what string // it calls them
	has  func(core.ImageConfig) bool
}

func anyImage() Group {
	return Group{"images", func(core.ImageConfig) bool { return true }}
}

// GuestImages are those that virtual machines boot.
func GuestImages() Group {
	return Group{"guest images", func(c core.ImageConfig) bool { return build.Is(c.Env) }}
}

// accept gives what refuses all but images of the group to a command.
func (g Group) accept(command string) func(ref string, c core.ImageConfig) error {
	return func(ref string, c core.ImageConfig) error {
		if g.has(c) {
			return nil
		}
		return &core.Error{
			Kind: core.Invalid, Op: command, Object: ref, Err: errors.New("it is no guest image, which virtual machines boot"),
			Remedy: "`bee image " + command + "` is for all images; `bee vm image ls` lists the guest images.",
		}
	}
}

// find gives an image of the group that the cache has, named as in a Beefile of the
// working directory, to a command.
func (g Group) find(s *image.Store, command, word string) (core.Image, error) {
	i, err := s.Get(spec.ImageFrom(workspace.WorkingDir(), word))
	if err == nil {
		err = g.accept(command)(word, i.Config)
	}
	return i, err
}

// views are the images of the group that the cache has.
func (g Group) views(s *image.Store) ([]View, error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	return imageViews(s, slices.DeleteFunc(list, func(i core.Image) bool { return !g.has(i.Config) })...)
}
