// A Colyseus room that sends the next event to all its clients when POST /next asks for it: node FILE EVENTS
import { readFileSync } from "node:fs";
import http from "node:http";
import { Room, Server } from "@colyseus/core";
import { WebSocketTransport } from "@colyseus/ws-transport";

const events = JSON.parse(readFileSync(process.argv[2]));
let room, place = 0;

class Match extends Room {
  maxClients = 100_000;
  onCreate() { room = this; }
}

const server = http.createServer((request, response) => {
  room.broadcast("event", events[place++ % events.length]);
  response.setHeader("content-length", "0");
  response.end();
});
const game = new Server({ greet: false, transport: new WebSocketTransport({ server, pingInterval: 0 }) });
game.define("match", Match);
await game.listen(0, "127.0.0.1");
console.log(server.address().port);
