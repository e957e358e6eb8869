package ec2server

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/testkit/machines"
)

// States of machines, as EC2 calls them.
const (
	pending    = "pending"
	running    = "running"
	stopping   = "stopping"
	stopped    = "stopped"
	shutting   = "shutting-down"
	terminated = "terminated"
)

type instance struct {
	id, state, reason string
	index             int
	address           string // the public one, or ""
	token, group      string
	place             string // its placement group, or ""
	kind, zone        string
	spot              bool
	tags              map[string]string
	made              time.Time
	launch            *launch
}

// launch is what one call has rented: machines that reach each other.
type launch struct {
	parameters string
	machines   []*instance
	batch      *machines.Batch
}

func (s *Server) runInstances(params url.Values) (any, error) {
	count, err := strconv.Atoi(params.Get("MinCount"))
	if err != nil || count < 1 || params.Get("MaxCount") != params.Get("MinCount") {
		return nil, fail("InvalidParameterValue", "counts %q and %q: this server rents all or nothing", params.Get("MinCount"), params.Get("MaxCount"))
	}
	token := params.Get("ClientToken")
	if l := s.launches[token]; l != nil && token != "" {
		if l.parameters != params.Encode() {
			return nil, fail("IdempotentParameterMismatch", "The request uses the same client token as a previous, but non-identical request.")
		}
		return reservation(l.machines), nil
	}
	at := slices.IndexFunc(subnets(), func(n subnetItem) bool { return n.ID == params.Get("NetworkInterface.1.SubnetId") })
	if at < 0 {
		return nil, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", params.Get("NetworkInterface.1.SubnetId"))
	}
	zone, kind := subnets()[at].Zone, params.Get("InstanceType")
	typeAt := slices.IndexFunc(types(), func(t typeItem) bool { return t.Name == kind })
	images := snapshots{s}.images()
	imageAt := slices.IndexFunc(images, func(i imageItem) bool { return i.ID == params.Get("ImageId") })
	script, err := base64.StdEncoding.DecodeString(params.Get("UserData"))
	live := 0
	for _, i := range s.instances {
		if i.state != terminated {
			live++
		}
	}
	switch {
	case typeAt < 0:
		return nil, fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", kind)
	case imageAt < 0:
		return nil, fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", params.Get("ImageId"))
	case !slices.Contains(types()[typeAt].Arch, images[imageAt].Arch):
		return nil, fail("InvalidParameterValue", "The architecture '%s' of the specified AMI does not match that of the instance type.", images[imageAt].Arch)
	case !slices.Contains(offerings(), offeringItem{kind, "availability-zone", zone}):
		return nil, fail("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", kind, zone)
	case err != nil || len(script) > 16<<10:
		return nil, fail("InvalidUserData.Malformed", "User data is limited to 16384 bytes")
	case params.Get("InstanceInitiatedShutdownBehavior") != "terminate", params.Get("MetadataOptions.HttpTokens") != "required", params.Get("MetadataOptions.HttpPutResponseHopLimit") != "1":
		return nil, fail("InvalidParameterCombination", "this server rents no machine that stays when it is powered off, or whose metadata its containers can read")
	}
	spot, err := spotOf(params)
	if err != nil {
		return nil, err
	}
	placed, err := places{s}.of(params, types()[typeAt], count)
	if err != nil {
		return nil, err
	}
	if err := dryRun(params); err != nil {
		return nil, err
	}
	group := params.Get("NetworkInterface.1.SecurityGroupId.1")
	switch {
	case s.groups[group] == nil:
		return nil, fail("InvalidGroup.NotFound", "The security group '%s' does not exist", group)
	case s.groups[group].vpc != subnets()[at].VPC:
		return nil, fail("InvalidParameter", "Security group %s and subnet %s belong to different networks.", group, subnets()[at].ID)
	case live+count > s.quota:
		return nil, fail("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows.", s.quota)
	case placed != nil && s.full[placed.strategy+" "+kind+" "+zone]:
		return nil, &apiError{"InsufficientInstanceCapacity", "There is not enough capacity to fulfill your request in the placement group.", http.StatusInternalServerError}
	case spot && s.full["spot "+kind+" "+zone]:
		return nil, &apiError{"InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request.", http.StatusInternalServerError}
	case s.full[kind+" "+zone]:
		return nil, &apiError{"InsufficientInstanceCapacity", "We currently do not have sufficient " + kind + " capacity in the Availability Zone you requested.", http.StatusInternalServerError}
	}
	l := &launch{parameters: params.Encode()}
	var ids, names []string
	for i := range count {
		m := &instance{
			id: s.id("i"), state: pending, index: i, token: token, group: group, place: params.Get("Placement.GroupName"), kind: kind, zone: zone, spot: spot,
			tags: tagsFor(params, "instance"), made: time.Now(), launch: l,
		}
		for _, d := range images[imageAt].Disks {
			s.volumes = append(s.volumes, &volume{id: s.id("vol"), disk: d.Name, size: d.Size, of: m, ends: endsWithMachine(params, d.Name), tags: tagsFor(params, "volume")})
		}
		address := s.newAddress()
		if params.Get("NetworkInterface.1.AssociatePublicIpAddress") == "true" {
			m.address = address
		}
		l.machines, s.instances = append(l.machines, m), append(s.instances, m)
		ids, names = append(ids, m.id), append(names, "ip-"+strings.ReplaceAll(address, ".", "-"))
	}
	s.launches[token] = l
	l.batch = s.Boot(ids, names, string(script), s.events(l))
	return reservation(l.machines), nil
}

// spotOf reports whether a call rents spot machines: one that ends when it is interrupted, and no other.
func spotOf(params url.Values) (bool, error) {
	const at = "InstanceMarketOptions."
	if !params.Has(at + "MarketType") {
		return false, nil
	}
	if params.Get(at+"MarketType") != "spot" || params.Get(at+"SpotOptions.SpotInstanceType") != "one-time" || params.Get(at+"SpotOptions.InstanceInterruptionBehavior") != "terminate" {
		return false, fail("InvalidParameterCombination", "this server rents only spot machines of one request that end when they are interrupted")
	}
	if price := params.Get(at + "SpotOptions.MaxPrice"); price != "" {
		most, err := strconv.ParseFloat(price, 64)
		if err != nil {
			return false, fail("InvalidParameterValue", "Invalid value '%s' for MaxPrice.", price)
		}
		if most < SpotPrice {
			return false, fail("SpotMaxPriceTooLow", "Your Spot request price of %s is lower than the minimum required Spot request fulfillment price of %g.", price, SpotPrice)
		}
	}
	return true, nil
}

// SpotPrice is what an hour of any spot machine costs.
const SpotPrice = 0.05

// Spots is how many spot machines there are.
func (s *Server) Spots() (n int) {
	s.locked(func() {
		for _, i := range s.instances {
			if i.spot && i.state != terminated {
				n++
			}
		}
	})
	return n
}

// Interrupt gives notice to a spot machine, by its number among those of its launch, that it is reclaimed in that time,
// and reclaims it then.
func (s *Server) Interrupt(index int, in time.Duration) (err error) {
	s.locked(func() {
		at := slices.IndexFunc(s.instances, func(i *instance) bool { return i.state == running && i.spot && i.index == index })
		if at < 0 {
			err = errors.New("no spot machine runs")
			return
		}
		i := s.instances[at]
		if err = i.launch.batch.Interrupt(i.index, time.Now().Add(in)); err != nil {
			return
		}
		time.AfterFunc(in, func() {
			s.locked(func() { s.terminate(i, "Server.SpotInstanceTermination: Spot instance was terminated by EC2") })
		})
	})
	return err
}

// Announce has the metadata service of a machine that runs announce something; index is its number among those of its
// launch.
func (s *Server) Announce(index int, announce func(b *machines.Batch, n int) error) (err error) {
	s.locked(func() {
		at := slices.IndexFunc(s.instances, func(i *instance) bool { return i.state == running && i.index == index })
		if err = errors.New("no such machine runs"); at >= 0 {
			err = announce(s.instances[at].launch.batch, index)
		}
	})
	return err
}

// events have the machines of a launch change as EC2's do.
func (s *Server) events(l *launch) machines.Events {
	return machines.Events{
		Running: func(n int) {
			s.locked(func() {
				i := l.machines[n]
				reached := i.address
				if reached == "" && s.bastion == "" { // from within the network
					reached = l.batch.Address(n)
				}
				if i.state == pending && (reached == "" || l.batch.Route(reached, n) == nil) {
					i.state = running
				}
			})
		},
		PoweredOff: func(n int) {
			s.locked(func() { s.terminate(l.machines[n], "Client.InstanceInitiatedShutdown: Instance initiated shutdown") })
		},
		Ended: func(n int) {
			s.locked(func() {
				if i := l.machines[n]; i.state == stopping {
					i.state = stopped
				} else {
					i.state = terminated
				}
			})
		},
	}
}

// endsWithMachine reports whether a call wants a disk of the image to end with its machine.
func endsWithMachine(params url.Values, disk string) bool {
	for i := 1; params.Has(fmt.Sprintf("BlockDeviceMapping.%d.DeviceName", i)); i++ {
		at := fmt.Sprintf("BlockDeviceMapping.%d.", i)
		if params.Get(at+"DeviceName") == disk {
			return params.Get(at+"Ebs.DeleteOnTermination") == "true"
		}
	}
	return false
}

type instanceItem struct {
	ID      string    `xml:"instanceId"`
	State   string    `xml:"instanceState>name"`
	Code    string    `xml:"stateReason>code,omitempty"`
	Reason  string    `xml:"stateReason>message,omitempty"`
	Index   int       `xml:"amiLaunchIndex"`
	Type    string    `xml:"instanceType"`
	Address string    `xml:"ipAddress,omitempty"`
	Private string    `xml:"privateIpAddress,omitempty"`
	Zone    string    `xml:"placement>availabilityZone"`
	Market  string    `xml:"instanceLifecycle,omitempty"`
	Made    string    `xml:"launchTime"`
	Tags    []tagItem `xml:"tagSet>item"`
}

func (i *instance) item() instanceItem {
	code, _, _ := strings.Cut(i.reason, ":")
	item := instanceItem{ID: i.id, State: i.state, Code: code, Reason: i.reason, Index: i.index, Type: i.kind, Zone: i.zone, Made: i.made.UTC().Format("2006-01-02T15:04:05.000Z"), Tags: tagItems(i.tags)}
	if i.spot {
		item.Market = "spot"
	}
	if i.state == running {
		item.Address, item.Private = i.address, i.launch.batch.Address(i.index)
	}
	return item
}

func reservation(machines []*instance) any {
	var items []instanceItem
	for _, m := range machines {
		items = append(items, m.item())
	}
	return struct {
		bare
		Items []instanceItem `xml:"instancesSet>item"`
	}{Items: items}
}

func (s *Server) describeInstances(params url.Values) (any, error) {
	type set struct {
		Items []instanceItem `xml:"instancesSet>item"`
	}
	var found []set
	if slices.Contains(list(params, "Filter.1.Value"), s.bastion) && params.Get("Filter.1.Name") == "ip-address" {
		found = append(found, set{[]instanceItem{{ID: "i-bastion", State: running, Address: s.bastion, Private: BastionInside}}})
	}
	for _, i := range s.instances {
		is, err := passes(params, map[string]string{"client-token": i.token, "instance-id": i.id, "instance-state-name": i.state, "ip-address": i.address}, i.tags)
		if err != nil {
			return nil, err
		}
		if is && time.Since(i.made) >= s.late {
			found = append(found, set{[]instanceItem{i.item()}})
		}
	}
	return struct {
		bare
		Sets []set `xml:"reservationSet>item"`
	}{Sets: found}, nil
}

// wanted returns the machines of a call. Where one is not there, nothing is done.
func (s *Server) wanted(params url.Values) (found []*instance, err error) {
	for _, id := range list(params, "InstanceId") {
		at := slices.IndexFunc(s.instances, func(i *instance) bool { return i.id == id })
		if at < 0 {
			return nil, fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
		found = append(found, s.instances[at])
	}
	return found, nil
}

func (s *Server) terminateInstances(params url.Values) (any, error) {
	ending, err := s.wanted(params)
	if err != nil {
		return nil, err
	}
	for _, i := range ending {
		s.terminate(i, "Client.UserInitiatedShutdown: User initiated shutdown")
	}
	return done(), nil
}

func (s *Server) stopInstances(params url.Values) (any, error) {
	chosen, err := s.wanted(params)
	if err != nil {
		return nil, err
	}
	for _, i := range chosen {
		if i.spot {
			return nil, fail("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request.", i.id)
		}
		switch i.state {
		case running:
			i.state = stopping
			i.launch.batch.End(i.index)
		case stopping, stopped:
		default:
			return nil, fail("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be stopped.", i.id)
		}
	}
	return done(), nil
}

// terminate begins the end of a machine.
func (s *Server) terminate(i *instance, reason string) {
	if i.state == shutting || i.state == terminated {
		return
	}
	if i.reason = reason; i.state == stopped {
		i.state = terminated
		return
	}
	i.state = shutting
	i.launch.batch.End(i.index)
}

// Reclaim ends all machines as the cloud may do behind one's back.
func (s *Server) Reclaim() {
	s.locked(func() {
		for _, i := range s.instances {
			s.terminate(i, "Server.SpotInstanceTermination: it was reclaimed")
		}
	})
}

// Move gives all machines other addresses, as if they had been stopped and started.
func (s *Server) Move() (err error) {
	s.locked(func() {
		for _, i := range s.instances {
			if i.state != running || i.address == "" {
				continue
			}
			s.serial++
			i.launch.batch.Unroute(i.address)
			i.address = s.newAddress()
			err = errors.Join(err, i.launch.batch.Route(i.address, i.index))
		}
	})
	return err
}

// newAddress returns an address that no machine has had.
func (s *Server) newAddress() string {
	return fmt.Sprintf("198.51.%d.%d", 100+s.serial/250, 1+s.serial%250)
}

// Console is what the machines have written to theirs.
func (s *Server) Console() (all string) {
	s.locked(func() {
		for _, i := range s.instances {
			all += i.launch.batch.Console(i.index)
		}
	})
	return all
}

func (s *Server) consoleOutput(params url.Values) (any, error) {
	at := slices.IndexFunc(s.instances, func(i *instance) bool { return i.id == params.Get("InstanceId") })
	if at < 0 {
		return nil, fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", params.Get("InstanceId"))
	}
	i := s.instances[at]
	return struct {
		bare
		Output string `xml:"output"`
	}{Output: base64.StdEncoding.EncodeToString([]byte(i.launch.batch.Console(i.index)))}, nil
}
