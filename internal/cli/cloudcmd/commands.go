// Package cloudcmd is bee cloud: the commands for what is rented at clouds. Package gc lists and ends it.
package cloudcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// Commands makes the commands of this room over one workspace.
type Commands struct{ *workspace.Workspace }

// New returns the commands over a workspace.
func New(w *workspace.Workspace) *Commands { return &Commands{w} }

// Command returns the command `cloud`.
func (a *Commands) Command() *cobra.Command {
	c := &cobra.Command{
		Use: "cloud", Short: "List what is rented at clouds, end what was left there, and list what they rent", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.lsCommand(), a.rmCommand(), a.typesCommand(), a.policyCommand(), a.imageCommand())
	return c
}

// siteFlag adds --site to a command.
func (a *Commands) siteFlag(c *cobra.Command, sites *[]string) {
	c.Flags().StringSliceVar(sites, "site", nil, "only the clouds of these `sites`")
	a.SiteFlag(c)
}

// rented is what the clouds of sites have.
type rented struct {
	clouds []spec.Site
	list   []control.Rented
}

// rented asks the clouds of the sites with these names; none: of all. An error may come with a part of the answer.
func (a *Commands) rented(ctx context.Context, s *workspace.Session, names []string) (rented, error) {
	file, err := a.FindSites()
	if err != nil {
		return rented{}, err
	}
	clouds, cerr := s.Garbage().Clouds(ctx, file.Sites)
	for _, name := range names {
		if !slices.ContainsFunc(clouds, func(s spec.Site) bool { return s.Name == name }) {
			return rented{}, errors.Join(cerr, noCloud(name, clouds))
		}
	}
	if len(names) > 0 {
		clouds = slices.DeleteFunc(clouds, func(s spec.Site) bool { return !slices.Contains(names, s.Name) })
	}
	list, err := s.Garbage().Rented(ctx, clouds)
	return rented{clouds, list}, errors.Join(cerr, err)
}

// noCloud is the error of a name that no site with a cloud has.
func noCloud(name string, clouds []spec.Site) error {
	e := &core.Error{Kind: core.Invalid, Op: "find the cloud of site", Object: name, Err: errors.New("no site of that name rents machines"), Remedy: "Add a site of provider aws or openstack to the sites file."}
	var names []string
	for _, s := range clouds {
		names = append(names, s.Name)
	}
	if len(names) > 0 {
		e.Remedy = fmt.Sprintf("Give one of %s.", strings.Join(names, ", "))
	}
	return e
}
