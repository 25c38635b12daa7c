// graphql-ws with the same schema: sends the next event to all subscribers when POST /next asks for it: node FILE EVENTS SDL
import { readFileSync } from "node:fs";
import http from "node:http";
import { buildSchema } from "graphql";
import { useServer } from "graphql-ws/use/ws";
import { WebSocketServer } from "ws";

const events = JSON.parse(readFileSync(process.argv[2]));
const schema = buildSchema(readFileSync(process.argv[3], "utf8"));
const subscribers = new Set();
let place = 0;

schema.getSubscriptionType().getFields().matchEvents.subscribe = async function* () {
  const queue = [];
  let wake = () => {};
  const push = (event) => { queue.push(event); wake(); };
  subscribers.add(push);
  try {
    for (;;) {
      while (queue.length) yield queue.shift();
      await new Promise((resolve) => { wake = resolve; });
    }
  } finally {
    subscribers.delete(push);
  }
};

const server = http.createServer((request, response) => {
  const event = { matchEvents: events[place++ % events.length] };
  for (const push of subscribers) push(event);
  response.setHeader("content-length", "0");
  response.end();
});
useServer({ schema }, new WebSocketServer({ server, path: "/graphql", perMessageDeflate: false }));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
