/* Connections by address: what librdmacm offers, over the broker. */
#ifndef BEE_CM_H
#define BEE_CM_H

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "object.h"

struct cm_channel {
	struct rdma_event_channel channel; /* fd: readable while there are events */
	struct context *context;
	uint32_t handle;
	uint32_t readers;                  /* threads in rdma_get_cm_event */
	uint32_t destroyed;
};

/* cm_peer is what an event has brought of the other side. */
struct cm_peer {
	uint32_t qp;
	uint16_t lid;
	uint8_t retries, rnr_retries;
};

struct cm_id {
	struct rdma_cm_id id;
	struct cm_id *next;       /* with the same bucket */
	struct context *context;
	uint32_t handle;
	uint32_t taken;           /* events that rdma_get_cm_event returned, ever */
	uint32_t acknowledged;
	int sync;                 /* the channel is its own, and calls wait for their events */
	struct cm_peer peer;
	uint8_t responder_resources, initiator_depth;
	uint8_t retries;
	uint8_t timeout;          /* of a queue pair, as RDMA_OPTION_ID_ACK_TIMEOUT sets it */
	struct cm_group *groups;
	struct ibv_qp_init_attr *accept; /* for queue pairs of rdma_get_request */
};

struct cm_event {
	struct rdma_cm_event event;
	struct cm_id *id;         /* which counts it: of a request the listening one */
	uint8_t private_data[BEE_CM_PRIVATE];
};

/* cm_failed sets errno for an error, and returns what functions of librdmacm return. */
static inline int cm_failed(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

static inline int cm_datagram(const struct cm_id *id)
{
	return id->id.ps == RDMA_PS_UDP;
}

/* cm_context returns the device that all identifiers share; NULL without one. */
struct ibv_context *cm_context(void);

/* cm_attach names the device and its port in an identifier. */
void cm_attach(struct cm_id *id);

/* cm_call sends a request that is a handle and a value. It returns an errno. */
int cm_call(struct cm_id *id, uint16_t op, uint32_t value);

/* cm_adopt makes an identifier for a handle of the broker; NULL without memory. */
struct cm_id *cm_adopt(struct rdma_event_channel *channel, uint32_t handle, enum rdma_port_space ps, void *user);

/* cm_count finds the identifier of an event, and counts the event; NULL: it is gone. */
struct cm_id *cm_count(struct context *c, uint32_t handle);

/* cm_complete waits for the event of a call, if the identifier is synchronous. */
int cm_complete(struct cm_id *id);

/* cm_read_address reads an address of a program, and returns an errno. */
int cm_read_address(const struct sockaddr *a, struct bee_cm_address *to);

/* cm_joined joins the group of an event; 0: the program has left it since. */
int cm_joined(struct cm_event *e, uint32_t number);
void cm_free_groups(struct cm_id *id);

/* cm_address writes an address of the broker as programs have it. */
void cm_address(const struct bee_cm_address *a, struct sockaddr_storage *to);

/* cm_path notes the one way to the other side. It returns an errno. */
int cm_path(struct cm_id *id, uint16_t lid, const uint8_t gid[16]);

/*
 * cm_ready takes the queue pair of an identifier, if any, to RTR and RTS, and returns an
 * errno. cm_stop takes it to the error state.
 */
int cm_ready(struct cm_id *id);
int cm_stop(struct cm_id *id);

#endif
