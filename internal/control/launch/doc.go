// Package launch makes of a job, an image and the hosts of a lease the configurations of nodes,
// and starts these: for a controller, and in its stead for the agent of a site. It knows
// nothing of runs that continue, nor of an attempt's states.
package launch
