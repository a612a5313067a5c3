"""What readers stack: highway, feed-forward and recurrent layers, and FABIR's layers made of attention."""
