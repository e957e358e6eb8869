// Package aws is the provider of machines that are rented from EC2. It translates between
// package cloud, which has all that rented machines have in common, and EC2's API, and keeps no
// state of its own.
package aws

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// Driver is the name of the provider.
const Driver = "aws"

// leastBilled is how long a machine costs at least ("per-second billing with a minimum of 60 seconds").
const leastBilled = time.Minute

// Settings of a site.
type Settings struct {
	// Profile and Region are as AWS's own tools have them; "": they find them.
	Profile, Region string
	// Types in order of preference, and Zones; none: all that offer a type.
	Types, Zones []string
	// Market are kinds of rent in order of preference, "spot" and "on-demand"; none: the latter. MaxPrice is the most
	// that a spot machine may cost an hour, in US dollars; 0: as much as one on demand.
	Market   []string
	MaxPrice float64
	// Image is a name such as debian-12, or an id. User is its login user; "": that of
	// the name.
	Image, User string
	// VPC is the network to use, and Subnets are those of it; neither: the default network.
	VPC     string
	Subnets []string
	// Public is whether the machines have public addresses; "": PublicAuto.
	Public Public
	// SSHFrom are the ranges of addresses that ssh is let in from; none: this machine's address.
	SSHFrom []string
	// Disk is the size of the first disk in bytes; 0: the image's.
	Disk int64
	// Tags are added to each object.
	Tags map[string]string
	// Cloud is what is the same in each cloud.
	Cloud cloud.Settings
}

// Public is whether machines have public addresses.
type Public string

// Values of Public.
const (
	PublicAuto Public = "auto" // they have some, unless there is a bastion
	PublicYes  Public = "true"
	PublicNo   Public = "false"
)

// New returns the provider of a site.
func New(s Settings) (driver.Provider, error) {
	c := s.Cloud.WithDefaults()
	c.Driver, c.Summary, c.Untried, c.LeastBilled, c.Notice = Driver, "EC2", "AWS itself", leastBilled, noticeScript
	c.StopsFree = true
	if slices.Contains(s.Market, spot) {
		c.NoticeTime = noticeTime
	}
	if s.Region != "" {
		c.Summary += " in " + s.Region
	}
	s.Cloud = c
	a := &account{client: newClient(s.Profile, s.Region), s: s}
	c.From, c.Account = origin{a}.from, accountOf(a)
	return cloud.New(c, a)
}

// account implements cloud.API.
type account struct {
	*client
	s Settings
}

// private reports whether the machines have no public address.
func (a *account) private() bool { return a.s.Cloud.Bastion != "" || a.s.Public == PublicNo }

// accountOf is the same for sites whose lists of machines are: they have the addresses by which those are reached.
func accountOf(a *account) string {
	return fmt.Sprintf("%s %q %q %t", Driver, a.s.Profile, a.s.Region, a.private())
}

// Tags of what belongs to a run.
const (
	tagInstallation = "bee:installation"
	tagRun          = "bee:run"
	tagAttempt      = "bee:attempt"
	tagExpires      = "bee:expires"
	// tagPlacement is on a security group: there may be a placement group of that strategy with its name.
	tagPlacement = "bee:placement"
)

// ownerTags returns the tags of an owner.
func ownerTags(o core.Owner) map[string]string {
	return map[string]string{tagInstallation: o.User, tagRun: o.Run, tagAttempt: strconv.Itoa(o.Attempt)}
}

// tagged adds tags to the parameters of a call for each type of object that it makes.
func (a *account) tagged(params url.Values, tags map[string]string, types ...string) {
	all := map[string]string{}
	maps.Copy(all, a.s.Tags)
	maps.Copy(all, tags)
	for i, t := range types {
		at := fmt.Sprintf("TagSpecification.%d.", i+1)
		params.Set(at+"ResourceType", t)
		for n, key := range slices.Sorted(maps.Keys(all)) {
			params.Set(fmt.Sprintf("%sTag.%d.Key", at, n+1), key)
			params.Set(fmt.Sprintf("%sTag.%d.Value", at, n+1), all[key])
		}
	}
}

// filter adds filters to the parameters of a call. Those without values are left out.
type filter struct {
	name   string
	values []string
}

func filtered(params url.Values, filters ...filter) url.Values {
	n := 0
	for _, f := range filters {
		if len(f.values) == 0 {
			continue
		}
		n++
		params.Set(fmt.Sprintf("Filter.%d.Name", n), f.name)
		for i, v := range f.values {
			params.Set(fmt.Sprintf("Filter.%d.Value.%d", n, i+1), v)
		}
	}
	return params
}

// ownedBy returns the filters for what has an owner's tags.
func ownedBy(q core.Owner) []filter {
	filters := []filter{{"tag:" + tagInstallation, []string{q.User}}}
	if q.Run != "" {
		filters = append(filters, filter{"tag:" + tagRun, []string{q.Run}})
	}
	if q.Attempt != 0 {
		filters = append(filters, filter{"tag:" + tagAttempt, []string{strconv.Itoa(q.Attempt)}})
	}
	return filters
}

// tag is a tag in an answer.
type tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func ownerOf(tags []tag) (o core.Owner) {
	for _, t := range tags {
		switch t.Key {
		case tagInstallation:
			o.User = t.Value
		case tagRun:
			o.Run = t.Value
		case tagAttempt:
			o.Attempt, _ = strconv.Atoi(t.Value) // 0, which no attempt has, of anything else
		}
	}
	return o
}

// valueOf returns the value of a tag, or "".
func valueOf(tags []tag, key string) string {
	at := slices.IndexFunc(tags, func(t tag) bool { return t.Key == key })
	if at < 0 {
		return ""
	}
	return tags[at].Value
}

// timeOf returns a time in an answer; zero: it is none.
func timeOf(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// instance is a machine in an answer.
type instance struct {
	ID      string `xml:"instanceId"`
	Index   int    `xml:"amiLaunchIndex"`
	State   string `xml:"instanceState>name"`
	Code    string `xml:"stateReason>code"`
	Reason  string `xml:"stateReason>message"`
	Public  string `xml:"ipAddress"`
	Private string `xml:"privateIpAddress"`
	Type    string `xml:"instanceType"`
	Zone    string `xml:"placement>availabilityZone"`
	Market  string `xml:"instanceLifecycle"` // spot or nothing
	Made    string `xml:"launchTime"`
	Tags    []tag  `xml:"tagSet>item"`
}

// endOf returns why a machine has stopped or ended, by EC2's code of the reason for its state.
func endOf(code string) core.HostsEnd {
	switch code {
	case "Server.SpotInstanceTermination", "Server.SpotInstanceShutdown", "Server.ScheduledStop":
		return core.HostsReclaimed
	case "Client.InstanceInitiatedShutdown":
		return core.HostsPoweredOff
	case "Client.UserInitiatedShutdown":
		return core.HostsEnded
	}
	return ""
}

// machine translates a machine, which is reached by its private address or by its public one. That is checked, as it
// becomes part of a command line.
func (i instance) machine(private bool) cloud.Machine {
	m := cloud.Machine{
		ID: i.ID, Index: i.Index, Reason: i.Reason, End: endOf(i.Code), Owner: ownerOf(i.Tags),
		Type: i.Type, Zone: i.Zone, Spot: i.Market == spot, Made: timeOf(i.Made), Expires: timeOf(valueOf(i.Tags, tagExpires)),
	}
	switch i.State {
	case "pending":
		m.State = cloud.Pending
	case "running":
		m.State = cloud.Running
	case "stopped":
		m.State = cloud.Stopped
	case "shutting-down":
		m.State = cloud.Ending
	case "terminated":
		m.State = cloud.Ended
	default: // or a state that is not known, in which it may compute
		m.State = cloud.Stopping
	}
	address := i.Public
	if private {
		address = i.Private
	}
	if ip, err := netip.ParseAddr(address); err == nil && ip.Zone() == "" {
		m.Address = ip.String()
	}
	return m
}

// pages is how many pages of an answer are read at most.
const pages = 1000

// list returns what all pages of an answer have. read returns what a page has, and the token of the next; "": it
// is the last.
func list[Page, Item any](ctx context.Context, a *account, action string, filters []filter, read func(Page) (items []Item, next string)) ([]Item, error) {
	return listBy(ctx, a, action, filtered(url.Values{"MaxResults": {"1000"}}, filters...), read)
}

// listBy is list with the parameters of the call.
func listBy[Page, Item any](ctx context.Context, a *account, action string, params url.Values, read func(Page) (items []Item, next string)) ([]Item, error) {
	var all []Item
	for range pages {
		var page Page
		if err := a.call(ctx, action, params, &page); err != nil {
			return nil, err
		}
		items, next := read(page)
		all = append(all, items...)
		if next == "" {
			break
		}
		params.Set("NextToken", next)
	}
	return all, nil
}

func (a *account) instances(ctx context.Context, filters ...filter) ([]cloud.Machine, error) {
	found, err := a.describe(ctx, filters...)
	return a.machines(found), err
}

func (a *account) machines(found []instance) []cloud.Machine {
	machines := make([]cloud.Machine, len(found))
	for i, in := range found {
		machines[i] = in.machine(a.private())
	}
	return machines
}

func (a *account) describe(ctx context.Context, filters ...filter) ([]instance, error) {
	type page struct {
		Instances []instance `xml:"reservationSet>item>instancesSet>item"`
		Next      string     `xml:"nextToken"`
	}
	return list(ctx, a, "DescribeInstances", filters, func(p page) ([]instance, string) { return p.Instances, p.Next })
}

// Launched implements cloud.API.
func (a *account) Launched(ctx context.Context, token string) ([]cloud.Machine, error) {
	return a.instances(ctx, filter{"client-token", []string{token}})
}

// Owned implements cloud.API.
func (a *account) Owned(ctx context.Context, q core.Owner) ([]cloud.Machine, error) {
	return a.instances(ctx, ownedBy(q)...)
}

// order returns the parameters of a call that rents machines.
func (a *account) order(o cloud.Offer, nodes int) url.Values {
	n := strconv.Itoa(nodes)
	params := url.Values{
		"ImageId": {o.Image}, "InstanceType": {o.Type}, "MinCount": {n}, "MaxCount": {n},
		"InstanceInitiatedShutdownBehavior": {"terminate"},
		"MetadataOptions.HttpTokens":        {"required"}, "MetadataOptions.HttpPutResponseHopLimit": {"1"},
		"NetworkInterface.1.DeviceIndex": {"0"}, "NetworkInterface.1.SubnetId": {o.Subnet},
		"NetworkInterface.1.AssociatePublicIpAddress": {strconv.FormatBool(!a.private())}, "NetworkInterface.1.DeleteOnTermination": {"true"},
	}
	if o.Spot { // as it ends when it is reclaimed, it cannot be stopped
		params.Set("InstanceMarketOptions.MarketType", "spot")
		params.Set("InstanceMarketOptions.SpotOptions.SpotInstanceType", "one-time")
		params.Set("InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior", "terminate")
		if a.s.MaxPrice > 0 {
			params.Set("InstanceMarketOptions.SpotOptions.MaxPrice", strconv.FormatFloat(a.s.MaxPrice, 'f', -1, 64))
		}
	}
	disks := o.Others
	if o.Disk != "" {
		disks = append([]string{o.Disk}, disks...)
	}
	for i, name := range disks { // else a volume may outlive its machine
		at := fmt.Sprintf("BlockDeviceMapping.%d.", i+1)
		params.Set(at+"DeviceName", name)
		params.Set(at+"Ebs.DeleteOnTermination", "true")
	}
	if o.Disk != "" && a.s.Disk > 0 {
		params.Set("BlockDeviceMapping.1.Ebs.VolumeSize", strconv.FormatInt((a.s.Disk+1<<30-1)>>30, 10))
	}
	return params
}

// Launch implements cloud.API.
func (a *account) Launch(ctx context.Context, o cloud.Order) ([]cloud.Machine, error) {
	params := a.order(o.Offer, o.Nodes)
	params.Set("ClientToken", o.Token)
	params.Set("UserData", base64.StdEncoding.EncodeToString([]byte(o.Script)))
	params.Set("NetworkInterface.1.SecurityGroupId.1", o.Group)
	if o.PlacementGroup != "" {
		params.Set("Placement.GroupName", o.PlacementGroup)
	}
	tags := ownerTags(o.Owner)
	tags["Name"], tags[tagExpires] = "bee "+o.Owner.Run, o.Expires.UTC().Format(time.RFC3339)
	a.tagged(params, tags, "instance", "volume", "network-interface")
	var answer struct {
		Instances []instance `xml:"instancesSet>item"`
	}
	if err := settled(ctx, func() error { return a.call(ctx, "RunInstances", params, &answer) }); err != nil {
		return nil, err
	}
	return a.machines(answer.Instances), nil
}

// Check implements cloud.API by calls that only try: EC2 answers whether it would do it.
func (a *account) Check(ctx context.Context, o cloud.Offer) error {
	machine := a.order(o, 1)
	a.tagged(machine, map[string]string{tagInstallation: "none"}, "instance", "volume")
	if err := a.tries(ctx, "RunInstances", machine); err != nil {
		return err
	}
	if err := a.tries(ctx, "CreateSecurityGroup", url.Values{"GroupName": {"bee-dry-run"}, "GroupDescription": {"never made"}, "VpcId": {o.Network}}); err != nil {
		return err
	}
	if a.s.Cloud.Placement.Required {
		return placementGroups{a}.check(ctx, a.s.Cloud.Placement.Kind)
	}
	return nil
}

// tries has EC2 check a call without carrying it out.
func (a *account) tries(ctx context.Context, action string, params url.Values) error {
	params.Set("DryRun", "true")
	err := a.call(ctx, action, params, &struct{}{})
	if codeOf(err) == "DryRunOperation" {
		return nil
	}
	return err
}

// WhyEnded implements cloud.API: what is known is in the lists, which have machines for an hour after their end.
func (a *account) WhyEnded(context.Context, string) (core.HostsEnd, error) { return "", nil }

// Console implements cloud.API.
func (a *account) Console(ctx context.Context, id string) (string, error) {
	var answer struct {
		Output string `xml:"output"`
	}
	if err := a.call(ctx, "GetConsoleOutput", url.Values{"InstanceId": {id}}, &answer); err != nil {
		return "", err
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(answer.Output))
	return string(text), err
}

// End implements cloud.API.
func (a *account) End(ctx context.Context, ids []string) error {
	return each(ctx, a, "TerminateInstances", ids)
}

// Stop implements cloud.API.
func (a *account) Stop(ctx context.Context, ids []string) error {
	return each(ctx, a, "StopInstances", ids)
}

// each makes a call for machines. Those that are gone are no error.
func each(ctx context.Context, a *account, action string, ids []string) error {
	params := url.Values{}
	for i, id := range ids {
		params.Set(fmt.Sprintf("InstanceId.%d", i+1), id)
	}
	err := a.call(ctx, action, params, &struct{}{})
	if isGone(err) && len(ids) > 1 { // of one of them: nothing was done
		for _, id := range ids {
			if err := each(ctx, a, action, []string{id}); err != nil {
				return err
			}
		}
		return nil
	}
	if isGone(err) {
		return nil
	}
	return err
}
