// An Express application that asks itself, under auto-instrumentation: node --require .../register otel_express.js REQUESTS
// Prints "ok" once every page was read; spans leave when nothing is left to do.
const express = require('express');
const http = require('http');

const app = express();
app.get('/items/:item', (request, response) => {
  http.get({ port: server.address().port, path: '/stock' }, (stock) => {
    stock.resume();
    stock.on('end', () => response.send(request.params.item));
  });
});
app.get('/stock', (request, response) => response.status(404).send('none'));

const server = app.listen(0, '127.0.0.1', async () => {
  for (let item = 0; item < Number(process.argv[2]); item += 1) {
    const answer = await fetch(`http://127.0.0.1:${server.address().port}/items/${item}`);
    if ((await answer.text()) !== String(item)) throw new Error('another page');
  }
  server.close();
  server.closeAllConnections();
  console.log('ok');
});
